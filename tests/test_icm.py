"""ChunkedICMOnPolicyWrapper against tianshou's own: a curiosity module in another mode than the policy, or shared."""

import numpy as np
import pytest
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from rlrepro.cases.common.gail_icm import icm
from rlrepro.cases.common.tianshou_vectors import vector_rollout


def curiosity(change, chunked=True):
    """The loss of the curiosity module in one update, and then the weights after its first layer."""
    algorithm = icm(chunked, 128, 32, seed=0, device="cpu")
    change(algorithm)
    np.random.seed(0)
    with policy_within_training_step(algorithm.policy):
        loss = algorithm.update(vector_rollout(128)[1], batch_size=32, repeat=1).icm_loss
    weights = [weight.flatten() for weight in algorithm.model.feature_net[2:].parameters()]
    return float(loss), torch.cat(weights).tolist()


def add_dropout(algorithm):
    """Preprocessed in eval mode and updated in training mode, as tianshou does."""
    algorithm.model.feature_net.insert(1, torch.nn.Dropout(0.5))
    algorithm.eval()


def test_curiosity_can_be_preprocessed_in_eval_mode():
    assert curiosity(add_dropout)[0] > 0


def share_a_layer(algorithm):
    algorithm.model.feature_net[0] = algorithm.policy.actor.body[0]
    algorithm.wrapped_algorithm.optim._optim.param_groups[0]["lr"] = 1.0


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, rows):
        return rows * self.scale


class Rescales(torch.nn.Module):
    """Changes the scale in each step of the policy, as a running normalizer of observations does."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, rows):
        if torch.is_grad_enabled():
            self.scale.scale = self.scale.scale + 1
        return self.scale(rows)


def share_a_buffer(algorithm):
    scale = Scale()
    algorithm.policy.actor.body.insert(0, Rescales(scale))
    algorithm.model.feature_net.insert(0, scale)


def evaluate_features(algorithm):
    """Only this part of the curiosity module is in eval mode."""
    add_dropout(algorithm)
    algorithm.train()
    algorithm.model.feature_net.eval()


@pytest.mark.parametrize("change", [share_a_layer, share_a_buffer, evaluate_features])
def test_curiosity_is_the_releases_own(change):
    fixed, released = (curiosity(change, chunked) for chunked in (True, False))
    np.testing.assert_allclose(fixed[0], released[0], rtol=1e-5)
    np.testing.assert_allclose(fixed[1], released[1], atol=1e-7)
