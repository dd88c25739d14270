"""ChunkedPPOTorchLearner on the RLlib that is installed, in this process: no cluster is started."""

import copy

import numpy as np
import pytest

pytest.importorskip("ray.rllib.algorithms.ppo", reason="RLlib is not installed", exc_type=ImportError)

import gymnasium as gym
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from . import ChunkedGAE, ChunkedPPOTorchLearner

ACTIONS = gym.spaces.Discrete(3)
VECTOR = gym.spaces.Box(-10, 10, (4,), np.float32)
FLAT = {"fcnet_hiddens": [8], "vf_share_layers": False}
LSTM = {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 5}
LENGTHS = (10, 7, 1, 25)


class Whole(gym.spaces.Box):
    """Whole numbers, whose sums are exact."""

    def sample(self, *args, **options):
        return super().sample(*args, **options).round()


class NoValues(TorchRLModule):
    def setup(self):
        self.net = torch.nn.Linear(4, 3)

    def _forward(self, batch, **kwargs):
        return {"action_dist_inputs": self.net(batch["obs"])}


class UndeclaredValues(NoValues):
    def compute_values(self, batch, embeddings=None):
        return batch["obs"].sum(-1)


def learner(model=FLAT, fixed=True, size=8, modules=None, **options):
    """A built learner; `modules` are classes by name, of which the first is trained."""
    torch.manual_seed(0)
    config = PPOConfig().training(minibatch_size=size, train_batch_size_per_learner=sum(LENGTHS), num_epochs=1)
    config.rl_module(model_config=DefaultModelConfig(**model)).learners(num_learners=0, **options)
    if fixed:
        config.learners(learner_class=ChunkedPPOTorchLearner)
    names = list(modules or ["default_policy"])
    if modules:
        specs = {name: RLModuleSpec(module_class=module) for name, module in modules.items()}
        config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
        config.multi_agent(policies=set(names), policy_mapping_fn=lambda *_: names[0], policies_to_train=names[:1])
    return config.build_learner(spaces=dict.fromkeys(names, (VECTOR, ACTIONS)))


def episodes(space=VECTOR, state=None, seed=0):
    rng, sampled = np.random.default_rng(seed), []
    space.seed(seed)
    for number, length in enumerate(LENGTHS):
        outputs = {
            "action_logp": [np.float32(-1.1)] * length,
            "action_dist_inputs": list(np.zeros((length, 3), np.float32)),
        }
        if state is not None:
            outputs["state_out"] = [state] * length
        sampled.append(
            SingleAgentEpisode(
                observation_space=space,
                action_space=ACTIONS,
                observations=[space.sample() for _ in range(length + 1)],
                actions=list(rng.integers(3, size=length)),
                rewards=list(rng.random(length)),
                extra_model_outputs=outputs,
                terminated=number % 2 == 0,
                len_lookback_buffer=0,
            )
        )
    return sampled


def state_of(built):
    return copy.deepcopy(built.module["default_policy"].get_initial_state()) or None


def batch_of(built, space=VECTOR):
    """The batch that the pipeline makes, and the calls of `compute_values`: (values, with gradients)."""
    module, calls = built.module["default_policy"], []
    original = type(module).compute_values

    class Spying(type(module)):
        def compute_values(self, batch, embeddings=None):
            values = original(self, batch, embeddings)
            calls.append((values.numel(), torch.is_grad_enabled()))
            return values

    state = state_of(built)
    if state:
        state = {key: np.asarray(value) for key, value in state.items()}
    module.__class__ = Spying
    batch = built._learner_connector(
        rl_module=built.module, batch={}, episodes=episodes(space, state), shared_data={}, metrics=built.metrics
    )
    return batch["default_policy"], calls


def integers(built):
    """Whole numbers as weights: sums are then exact in any order, and so in any chunks."""
    with torch.no_grad():
        for weight in built.module["default_policy"].parameters():
            weight.copy_(weight.mul(4).round())
    return built


@pytest.mark.parametrize("model", [FLAT, LSTM], ids=["flat", "lstm"])
@pytest.mark.parametrize("size", [1, 8, 10_000])
def test_advantages_are_those_of_the_original(model, size):
    released, fixed = (batch_of(learner(model, fixed, size))[0] for fixed in (False, True))
    assert set(released) == set(fixed)
    for name in ("advantages", "value_targets"):
        assert fixed[name].dtype == released[name].dtype and not fixed[name].requires_grad
        torch.testing.assert_close(fixed[name], released[name])
    assert released["advantages"].abs().max() > 0.1


def test_they_are_the_same_bit_for_bit_where_sums_are_exact():
    released, fixed = (
        batch_of(integers(learner({**FLAT, "fcnet_activation": "relu"}, fixed)), Whole(-10, 10, (4,), np.float32))[0]
        for fixed in (False, True)
    )
    assert all(torch.equal(released[name], fixed[name]) for name in ("advantages", "value_targets"))


def test_one_chunk_is_the_same_bit_for_bit():
    released, fixed = (batch_of(learner(FLAT, fixed, None))[0] for fixed in (False, True))
    assert all(torch.equal(released[name], fixed[name]) for name in ("advantages", "value_targets"))


def test_no_chunk_is_larger_than_a_minibatch_and_none_records_gradients():
    _, calls = batch_of(learner(size=8))
    assert max(numel for numel, _ in calls) == 8 and sum(numel for numel, _ in calls) == sum(LENGTHS) + len(LENGTHS)
    assert not any(gradients for _, gradients in calls)
    assert batch_of(learner(fixed=False, size=8))[1] == [(sum(LENGTHS) + len(LENGTHS), True)]


def test_a_recurrent_network_gets_whole_sequences():
    assert {numel for numel, _ in batch_of(learner(LSTM, size=12))[1]} == {10}  # two of five timesteps
    assert {numel for numel, _ in batch_of(learner(LSTM, size=2))[1]} == {5}  # at least one


def test_a_dict_with_a_tuple_is_split_at_every_depth():
    from .connector import _rows

    rows = torch.arange(5)
    part = _rows({"obs": {"a": rows, "b": (rows, rows)}, "infos": [{}, {1: 1}, {}, {}, {}], "none": None}, slice(1, 3))
    assert part["obs"]["b"][1].tolist() == [1, 2] == part["obs"]["a"].tolist() and part["infos"] == [{1: 1}, {}]


@pytest.mark.parametrize("has_override", [False, True])
def test_modules_are_left_as_they_were(has_override):
    built = learner()
    module = built.module["default_policy"]
    override = module.compute_values
    if has_override:
        module.compute_values = override
    before = vars(module).get("compute_values")
    batch = built._learner_connector(
        rl_module=built.module, batch={}, episodes=episodes(), shared_data={}, metrics=built.metrics
    )
    assert batch["default_policy"]["advantages"].any()
    assert vars(module).get("compute_values") is before is (override if has_override else None)


def test_a_failing_network_leaves_the_module_as_it_was():
    built = learner()
    module = built.module["default_policy"]
    module.vf = None
    with pytest.raises(TypeError):
        batch_of(built)
    assert "compute_values" not in vars(module)


def test_training_gives_the_same_weights():
    from ray.rllib.core.learner.training_data import TrainingData

    weights = []
    for fixed in (False, True):
        built = learner(fixed=fixed)
        before = [weight.detach().clone() for weight in built.module["default_policy"].parameters()]
        for seed in range(3):
            np.random.seed(seed)
            built.update(
                training_data=TrainingData(episodes=episodes(seed=seed)),
                num_epochs=2,
                minibatch_size=8,
                timesteps={"num_env_steps_sampled_lifetime": 0},
            )
        weights.append([weight.detach() for weight in built.module["default_policy"].parameters()])
        assert max(float((a - b).abs().max()) for a, b in zip(weights[-1], before, strict=True)) > 1e-5
    torch.testing.assert_close(weights[0], weights[1])


@pytest.mark.parametrize("module", [NoValues, UndeclaredValues])
def test_a_module_without_values_is_named(module):
    with pytest.raises(TypeError, match=rf"'mine' is to be trained.*ValueFunctionAPI.*found {module.__name__}"):
        learner(modules={"mine": module})


def test_a_module_that_is_not_trained_needs_no_values():
    built = learner(modules={"learned": DefaultPPOTorchRLModule, "fixed": NoValues})
    assert isinstance(built._learner_connector.connectors[-1], ChunkedGAE)


def test_a_pipeline_without_advantages_is_named():
    with pytest.raises(ValueError, match=r"expected GeneralAdvantageEstimation.*found no connectors"):
        learner(add_default_connectors_to_learner_pipeline=False)


def test_it_takes_the_place_of_the_original_and_keeps_its_settings():
    connectors = learner(size=8)._learner_connector.connectors
    assert not [connector for connector in connectors if type(connector) is GeneralAdvantageEstimation]
    (connector,) = [connector for connector in connectors if isinstance(connector, GeneralAdvantageEstimation)]
    assert (connector.gamma, connector.lambda_, connector.size) == (PPOConfig().gamma, PPOConfig().lambda_, 8)
    args, kwargs = connector.get_ctor_args_and_kwargs()
    assert ChunkedGAE(*args, **kwargs).size == 8


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(size):
    with pytest.raises(ValueError, match="at least 1"):
        ChunkedGAE(gamma=0.9, lambda_=0.9, size=size)
