"""Callbacks, evaluation and curves of the members of an EnsemblePPO, against Stable-Baselines3's own."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from rlrepro.fixes import EnsemblePPO

STEPS, SEEDS = 128, (3, 5)
SIZES = {"n_steps": STEPS, "n_epochs": 2}


def ensemble(**options):
    return EnsemblePPO("Pendulum-v1", seeds=SEEDS, vectorization="sync", **SIZES, **options)


def evaluation(folder):
    env = DummyVecEnv([lambda: Monitor(gym.make("Pendulum-v1"))])
    env.seed(0)
    return EvalCallback(env, n_eval_episodes=1, eval_freq=STEPS, log_path=str(folder), verbose=0)


def results(folder):
    return np.load(folder / "evaluations.npz")["results"].ravel()


def curves(folder):
    reads_curves = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(reads_curves, reason="TensorBoard, which reads the curves, is not installed")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


class Recorder(BaseCallback):
    """Notes what it is told, and stops the training at a step."""

    def __init__(self, last=None):
        super().__init__()
        self.last, self.told, self.rewards, self.episodes = last, [], [], []

    def _on_training_start(self):
        self.told.append(f"start {self.locals['total_timesteps']}")

    def _on_rollout_start(self):
        self.told.append("rollout start")

    def _on_step(self):
        self.rewards.append(float(self.locals["rewards"][0]))
        self.episodes += [info["episode"]["l"] for info in self.locals["infos"] if "episode" in info]
        return self.num_timesteps != self.last

    def _on_rollout_end(self):
        self.told.append(f"rollout end {self.num_timesteps}")

    def _on_training_end(self):
        self.told.append("end")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"target_kl": 0.002, "learning_rate": 1e-3, "ent_coef": 0.01, "batch_size": 48}]
)
def test_curves_and_evaluations_are_those_of_sb3(tmp_path, options):
    ours = ensemble(**options)
    ours.learn(4 * STEPS, callback=lambda k: evaluation(tmp_path / str(k)), tensorboard_log=tmp_path / "ours")
    for member, seed in enumerate(SEEDS):
        folder = {"tensorboard_log": tmp_path / f"sb3-{member}"}
        alone = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", **folder, **SIZES, **options)
        alone.learn(4 * STEPS, callback=evaluation(tmp_path / f"alone-{member}"))
        expected = curves(tmp_path / f"sb3-{member}" / "PPO_1")
        found = curves(tmp_path / "ours" / f"member_{member}")
        assert expected.keys() == found.keys()
        for tag in found.keys() - {"time/fps"}:
            np.testing.assert_allclose(found[tag], expected[tag], rtol=1e-3, atol=1e-4, err_msg=tag)
        np.testing.assert_allclose(results(tmp_path / str(member)), results(tmp_path / f"alone-{member}"), rtol=1e-3)


@pytest.mark.slow
def test_hooks_are_called_as_sb3_calls_them():
    ours, theirs = [Recorder() for _ in SEEDS], Recorder()
    ensemble().learn(2 * STEPS, callback=ours.__getitem__)
    PPO("MlpPolicy", "Pendulum-v1", seed=SEEDS[1], device="cpu", **SIZES).learn(2 * STEPS, callback=theirs)
    assert ours[1].told == theirs.told and ours[1].episodes == theirs.episodes == [200]
    np.testing.assert_allclose(ours[1].rewards, theirs.rewards, rtol=1e-4)
    assert ours[0].rewards != ours[1].rewards


class Rollouts(BaseCallback):
    """Keeps the rollouts, and how far training is after each."""

    def __init__(self):
        super().__init__()
        self.kept, self.progress = [], []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        assert buffer.full and buffer.pos == STEPS
        self.kept.append({name: getattr(buffer, name).copy() for name in FIELDS})
        since_start = self.num_timesteps - self.model._num_timesteps_at_start
        self.progress.append((self.num_timesteps, since_start, self.model._total_timesteps))


FIELDS = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs", "advantages", "returns")


@pytest.mark.parametrize("vec_normalize", [False, True])
def test_callbacks_see_the_rollouts_that_sb3_shows_them(vec_normalize):
    def short_pendulum():
        return gym.make("Pendulum-v1", max_episode_steps=50)

    ours, theirs = [Rollouts() for _ in SEEDS], Rollouts()
    options = {"n_envs": 2, "vec_normalize": vec_normalize, "vectorization": "sync"}
    trained = EnsemblePPO(short_pendulum, seeds=SEEDS, **options, **SIZES)
    venv = DummyVecEnv([lambda: Monitor(short_pendulum())] * 2)
    alone = PPO("MlpPolicy", VecNormalize(venv) if vec_normalize else venv, seed=SEEDS[1], device="cpu", **SIZES)
    for go_on in (False, True):
        trained.learn(2 * STEPS, callback=ours.__getitem__)
        alone.learn(2 * STEPS, callback=theirs, reset_num_timesteps=not go_on)
    assert ours[1].progress == theirs.progress and len(theirs.kept) == 2
    for found, expected in zip(ours[1].kept, theirs.kept, strict=True):
        for name in FIELDS:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
            assert found[name].dtype == expected[name].dtype


@pytest.mark.slow
def test_a_member_that_is_stopped_keeps_its_weights_and_the_others_go_on():
    whole, stopped = ensemble(learning_rate=1e-2), ensemble(learning_rate=1e-2)
    at_stop = ensemble(learning_rate=1e-2).learn(2 * STEPS).networks.flat
    recorders = [Recorder(last=2 * STEPS + 1), Recorder()]
    stopped.learn(4 * STEPS, callback=recorders.__getitem__)
    whole.learn(4 * STEPS)
    assert (stopped.networks.flat[0] == at_stop[0]).all() and (stopped.networks.flat[1] == whole.networks.flat[1]).all()
    assert (whole.networks.flat[0] != at_stop[0]).any()
    assert len(recorders[0].rewards) == 2 * STEPS + 1 and len(recorders[1].rewards) == 4 * STEPS
    assert stopped.episodes[0].timesteps == [200] and stopped.episodes[1].timesteps == [200, 400]


class Infos(gym.Wrapper):
    """Infos of which Gymnasium can make no array."""

    def step(self, action):
        *made, info = self.env.step(action)
        return *made, {**info, "contacts": np.zeros(self.np_random.integers(1, 4)), "at": float(made[0][0])}


class Sees(BaseCallback):
    def _on_step(self):
        infos, seen = self.locals["infos"], self.locals["new_obs"][0, 0]
        assert self.locals["actions"].shape == (1, 1) and self.model.gamma == 0.9 and self.model.verbose == 0
        assert len(self.model.ep_info_buffer) == self.num_timesteps // 200
        return bool("episode" in infos[0] or infos[0]["at"] == seen) and infos[0]["contacts"].ndim == 1


def test_callbacks_see_infos_of_any_kind_and_the_parameters_of_their_member():
    def made():
        return Infos(gym.make("Pendulum-v1"))

    trained = EnsemblePPO(made, seeds=SEEDS, vectorization="sync", gamma=0.9, **SIZES)
    assert trained.learn(2 * STEPS, callback=lambda k: Sees()).num_timesteps == 2 * STEPS


def test_a_member_that_is_stopped_keeps_its_statistics():
    options = {"vec_normalize": True, "learning_rate": 1e-3}
    stopped = ensemble(**options).learn(2 * STEPS, callback=lambda k: Recorder(last=STEPS if k == 0 else None))
    shorter, whole = ensemble(**options).learn(STEPS), ensemble(**options).learn(2 * STEPS)
    venv = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
    counts = [each.vec_env(0, venv).obs_rms.count for each in (stopped, shorter, whole)]
    assert counts[0] == counts[1] < counts[2]
    for found, expected in [
        (stopped.normalize.statistics(0), shorter.normalize.statistics(0)),
        (stopped.normalize.statistics(1), whole.normalize.statistics(1)),
    ]:
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_it_ends_when_all_have_stopped():
    trained = ensemble().learn(4 * STEPS, callback=lambda k: Recorder(last=STEPS // 2 + k))
    assert trained.num_timesteps == STEPS // 2 + 1


@pytest.mark.slow
def test_what_callbacks_save_and_normalize(tmp_path):
    evaluated = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), training=False)
    callback = EvalCallback(evaluated, eval_freq=STEPS, n_eval_episodes=1, verbose=0, warn=False)
    made = [[callback, CheckpointCallback(STEPS, str(tmp_path))], Recorder()]
    trained = ensemble(vec_normalize=True).learn(STEPS, callback=made.__getitem__)
    saved = ActorCriticPolicy.load(tmp_path / f"rl_model_{STEPS}_steps.zip")
    assert saved.action_space == trained.action_space
    own = trained.vec_env(0, DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    np.testing.assert_array_equal(evaluated.obs_rms.mean, own.obs_rms.mean)
    assert evaluated.obs_rms.mean.any() and (evaluated.obs_rms.mean != trained.vec_env(1, own.venv).obs_rms.mean).any()


def test_what_is_not_a_callback_is_refused():
    with pytest.raises(ValueError, match=r"callback\(k\) must return Stable-Baselines3's BaseCallback"):
        ensemble().learn(STEPS, callback=lambda k: None)
