"""Callbacks, evaluation and curves of the members of an EnsemblePPO, against Stable-Baselines3's own."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.monitor import Monitor
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
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


class Recorder(BaseCallback):
    """Records its calls, and stops the training at a step."""

    def __init__(self, last=None):
        super().__init__()
        self.last, self.calls, self.rewards, self.episodes = last, [], [], []

    def _on_training_start(self):
        self.calls.append(f"start {self.locals['total_timesteps']}")

    def _on_rollout_start(self):
        self.calls.append("rollout start")

    def _on_step(self):
        self.rewards.append(float(self.locals["rewards"][0]))
        self.episodes += [info["episode"]["l"] for info in self.locals["infos"] if "episode" in info]
        return self.num_timesteps != self.last

    def _on_rollout_end(self):
        self.calls.append(f"rollout end {self.num_timesteps}")

    def _on_training_end(self):
        self.calls.append("end")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target_kl": 0.002, "learning_rate": 1e-3, "ent_coef": 0.01, "batch_size": 48},
        {"clip_range_vf": lambda remaining: 0.2 * remaining},
    ],
)
def test_curves_and_evaluations_are_those_of_sb3(tmp_path, options):
    ensemble_run = ensemble(**options)
    ensemble_run.learn(4 * STEPS, callback=lambda k: evaluation(tmp_path / str(k)), tensorboard_log=tmp_path / "ours")
    for member, seed in enumerate(SEEDS):
        folder = {"tensorboard_log": tmp_path / f"sb3-{member}"}
        reference = PPO("MlpPolicy", "Pendulum-v1", seed=seed, device="cpu", **folder, **SIZES, **options)
        reference.learn(4 * STEPS, callback=evaluation(tmp_path / f"alone-{member}"))
        expected = curves(tmp_path / f"sb3-{member}" / "PPO_1")
        actual = curves(tmp_path / "ours" / f"member_{member}")
        assert expected.keys() == actual.keys()
        for tag in actual.keys() - {"time/fps"}:
            np.testing.assert_allclose(actual[tag], expected[tag], rtol=1e-3, atol=1e-4, err_msg=tag)
        np.testing.assert_allclose(results(tmp_path / str(member)), results(tmp_path / f"alone-{member}"), rtol=1e-3)


class Succeeding(gym.Wrapper):
    def step(self, action):
        observation, *outcome, info = self.env.step(action)
        return observation, *outcome, {**info, "is_success": bool(observation[0] > 0)}


def test_the_success_rate_is_sb3s(tmp_path):
    def make():
        return Succeeding(gym.make("Pendulum-v1", max_episode_steps=10))

    trained = EnsemblePPO(make, seeds=SEEDS, n_envs=2, vectorization="sync", **SIZES)
    venv = DummyVecEnv([lambda: Monitor(make())] * 2)
    reference = PPO("MlpPolicy", venv, seed=SEEDS[1], device="cpu", tensorboard_log=tmp_path, **SIZES)
    for is_second in (False, True):
        trained.learn(4 * STEPS, tensorboard_log=[tmp_path / "first", tmp_path / "second"])
        reference.learn(4 * STEPS, reset_num_timesteps=not is_second)
    expected = curves(tmp_path / "PPO_1")["rollout/success_rate"]
    assert curves(tmp_path / "second")["rollout/success_rate"] == expected and len(expected) == 4
    assert len({rate for _, rate in expected}) > 1


@pytest.mark.slow
def test_hooks_are_called_as_sb3_calls_them():
    ours, theirs = [Recorder() for _ in SEEDS], Recorder()
    ensemble().learn(2 * STEPS, callback=ours.__getitem__)
    PPO("MlpPolicy", "Pendulum-v1", seed=SEEDS[1], device="cpu", **SIZES).learn(2 * STEPS, callback=theirs)
    assert ours[1].calls == theirs.calls and ours[1].episodes == theirs.episodes == [200]
    np.testing.assert_allclose(ours[1].rewards, theirs.rewards, rtol=1e-4)
    assert ours[0].rewards != ours[1].rewards


class Rollouts(BaseCallback):
    """Keeps the rollouts, and the progress of training after each."""

    def __init__(self):
        super().__init__()
        self.rollouts, self.progress = [], []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        assert buffer.full and buffer.pos == STEPS
        self.rollouts.append({name: getattr(buffer, name).copy() for name in FIELDS})
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
    reference = PPO("MlpPolicy", VecNormalize(venv) if vec_normalize else venv, seed=SEEDS[1], device="cpu", **SIZES)
    for is_second in (False, True):
        trained.learn(2 * STEPS, callback=ours.__getitem__)
        reference.learn(2 * STEPS, callback=theirs, reset_num_timesteps=not is_second)
    assert ours[1].progress == theirs.progress and len(theirs.rollouts) == 2
    for actual, expected in zip(ours[1].rollouts, theirs.rollouts, strict=True):
        for name in FIELDS:
            np.testing.assert_allclose(actual[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
            assert actual[name].dtype == expected[name].dtype


@pytest.mark.slow
def test_a_member_that_is_stopped_keeps_its_weights_and_the_others_continue():
    uninterrupted, stopped = ensemble(learning_rate=1e-2), ensemble(learning_rate=1e-2)
    at_stop = ensemble(learning_rate=1e-2).learn(2 * STEPS).networks.flat
    recorders = [Recorder(last=2 * STEPS + 1), Recorder()]
    stopped.learn(4 * STEPS, callback=recorders.__getitem__)
    uninterrupted.learn(4 * STEPS)
    assert (stopped.networks.flat[0] == at_stop[0]).all() and (
        stopped.networks.flat[1] == uninterrupted.networks.flat[1]
    ).all()
    assert (uninterrupted.networks.flat[0] != at_stop[0]).any()
    assert len(recorders[0].rewards) == 2 * STEPS + 1 and len(recorders[1].rewards) == 4 * STEPS
    assert stopped.episodes[0].timesteps == [200] and stopped.episodes[1].timesteps == [200, 400]


class Infos(gym.Wrapper):
    """Infos that Gymnasium can't put into an array."""

    def step(self, action):
        *outcome, info = self.env.step(action)
        return *outcome, {**info, "contacts": np.zeros(self.np_random.integers(1, 4)), "at": float(outcome[0][0])}


class CheckInfos(BaseCallback):
    def _on_step(self):
        infos, obs = self.locals["infos"], self.locals["new_obs"][0, 0]
        assert self.locals["actions"].shape == (1, 1) and self.model.gamma == 0.9 and self.model.verbose == 0
        assert len(self.model.ep_info_buffer) == self.num_timesteps // 200
        return bool("episode" in infos[0] or infos[0]["at"] == obs) and infos[0]["contacts"].ndim == 1


def test_callbacks_see_infos_of_any_kind_and_the_parameters_of_their_member():
    def make():
        return Infos(gym.make("Pendulum-v1"))

    trained = EnsemblePPO(make, seeds=SEEDS, vectorization="sync", gamma=0.9, **SIZES)
    assert trained.learn(2 * STEPS, callback=lambda k: CheckInfos()).num_timesteps == 2 * STEPS


def test_a_member_that_is_stopped_keeps_its_statistics():
    options = {"vec_normalize": True, "learning_rate": 1e-3}
    stopped = ensemble(**options).learn(2 * STEPS, callback=lambda k: Recorder(last=STEPS if k == 0 else None))
    shorter, full = ensemble(**options).learn(STEPS), ensemble(**options).learn(2 * STEPS)
    venv = DummyVecEnv([lambda: gym.make("Pendulum-v1")])
    counts = [model.vec_env(0, venv).obs_rms.count for model in (stopped, shorter, full)]
    assert counts[0] == counts[1] < counts[2]
    for actual, expected in [
        (stopped.normalize.statistics(0), shorter.normalize.statistics(0)),
        (stopped.normalize.statistics(1), full.normalize.statistics(1)),
    ]:
        for ours, theirs in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_it_ends_when_all_have_stopped():
    trained = ensemble().learn(4 * STEPS, callback=lambda k: Recorder(last=STEPS // 2 + k))
    assert trained.num_timesteps == STEPS // 2 + 1


@pytest.mark.slow
def test_callbacks_save_and_normalize(tmp_path):
    evaluated = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), training=False)
    callback = EvalCallback(evaluated, eval_freq=STEPS, n_eval_episodes=1, verbose=0, warn=False)
    callbacks = [[callback, CheckpointCallback(STEPS, str(tmp_path))], Recorder()]
    trained = ensemble(vec_normalize=True).learn(STEPS, callback=callbacks.__getitem__)
    saved = PPO.load(tmp_path / f"rl_model_{STEPS}_steps.zip", device="cpu").policy
    assert saved.action_space == trained.action_space
    venv = trained.vec_env(0, DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    np.testing.assert_array_equal(evaluated.obs_rms.mean, venv.obs_rms.mean)
    assert evaluated.obs_rms.mean.any() and (evaluated.obs_rms.mean != trained.vec_env(1, venv.venv).obs_rms.mean).any()


def test_a_value_that_is_not_a_callback_is_refused():
    with pytest.raises(ValueError, match=r"callback\(k\) must make a BaseCallback of Stable-Baselines3.*found None"):
        ensemble().learn(STEPS, callback=lambda k: None)
    with pytest.raises(ValueError, match=r"callback\(k\) must make a BaseCallback.*found <.*Recorder"):
        ensemble().learn(STEPS, callback=(2 * [Recorder()]).__getitem__)
