"""plan refuses what it can't plan, with the name of the argument or the operator."""

import pytest
import torch
from gymnasium import spaces

from rlrepro.cases.common.tianshou_ppo import ACTIONS
from rlrepro.cases.common.tianshou_vectors import FEATURES, DiscreteActor
from rlrepro.fit import CannotPlan, plan

from .fit_networks import CHOICE, FRAMES, TIANSHOU, VECTORS


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rollout": 0}, "rollout must be a whole number, at least 1; found 0"),
        ({"batch_size": 2.5}, "batch_size must be"),
        ({"library": "rllib"}, "tianshou-ppo, tianshou-a2c"),
        ({"library": "torchrl-ppo"}, "actor must be a TensorDict module"),
        ({"library": "sb3-ppo"}, "actor must be an ActorCriticPolicy"),
        ({"optimizer": "adam"}, "optimizer must be a class"),
        ({"dtype": "float16"}, "dtype must be a torch.dtype"),
        ({"rollout": None}, "rollout must be a whole number"),
        ({"device_memory_gib": float("inf")}, "gib must be a positive number"),
        ({"device_memory_gib": "8"}, "gib must be a positive number"),
        ({"rollout": 10**9, "batch_size": 10**9}, "at most 16,777,216 transitions at a time"),
        ({"device": "tpu"}, "device must be cuda or cpu"),
        ({"obs_space": CHOICE}, "obs_space must be a gymnasium Box"),
        ({"obs_space": None}, "obs_space must be a gymnasium Box; found None"),
        ({"act_space": spaces.MultiBinary(3)}, "act_space must be a gymnasium Box or Discrete"),
        ({"actor": len}, "actor must be a torch.nn.Module"),
        ({"critic": None}, "critic must be a torch.nn.Module"),
        ({"obs_space": FRAMES}, r"observations of shape \(4, 84, 84\)"),
    ],
)
def test_bad_arguments_are_named(change, message):
    actor, critic = TIANSHOU["mlp"]()
    arguments = {"actor": actor, "critic": critic, "obs_space": VECTORS, "act_space": CHOICE, "rollout": 64, **change}
    with pytest.raises(CannotPlan, match=message):
        plan(**arguments)


def test_a_network_with_data_dependent_shapes_is_refused_with_the_operators_name():
    class Looks(DiscreteActor):
        def forward(self, obs, state=None, info=None, **_):
            rows = torch.as_tensor(obs)
            selected = rows[rows.sum(1) >= 0]
            return self.body(selected), state

    with pytest.raises(CannotPlan, match="nonzero"):
        plan(Looks(FEATURES, ACTIONS), TIANSHOU["mlp"]()[1], VECTORS, CHOICE, rollout=64)
