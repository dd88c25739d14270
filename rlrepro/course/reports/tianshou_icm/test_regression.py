import copy

import numpy as np
import torch
from tianshou.algorithm.modelbased.icm import _ICMMixin
from tianshou.data import Batch
from tianshou.utils.net.discrete import IntrinsicCuriosityModule
from torch.autograd.graph import saved_tensors_hooks

NUM_TRANSITIONS, HIDDEN = 64, 128


def gradients(model: IntrinsicCuriosityModule, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def test_icm_holds_no_activations_while_wrapped_algorithm_updates() -> None:
    feature_net = torch.nn.Sequential(torch.nn.Linear(4, HIDDEN), torch.nn.ReLU())
    model = IntrinsicCuriosityModule(feature_net=feature_net, feature_dim=HIDDEN, action_dim=2, hidden_sizes=(HIDDEN,))
    reference = copy.deepcopy(model)
    icm = _ICMMixin(model=model, optim=None, lr_scale=1.0, reward_scale=0.1, forward_loss_weight=0.2)
    random = np.random.default_rng(0)
    obs, obs_next = random.standard_normal((2, NUM_TRANSITIONS, 4)).astype(np.float32)
    act = random.integers(2, size=NUM_TRANSITIONS)
    batch = Batch(obs=obs, obs_next=obs_next, act=act, rew=np.zeros(NUM_TRANSITIONS))
    saved: list[int] = []

    with saved_tensors_hooks(lambda t: saved.append(t.nbytes) or t, lambda t: t):
        icm._icm_preprocess_batch(batch)

    activations = NUM_TRANSITIONS * HIDDEN * 4  # bytes of one hidden layer
    assert sum(saved) < activations
    mse_loss, act_hat = reference(obs, act, obs_next)
    assert torch.equal(batch.policy.mse_loss, mse_loss)
    assert torch.equal(batch.policy.act_hat, act_hat)
    assert np.allclose(batch.rew, 0.1 * mse_loss.detach().numpy())
    loss = batch.policy.mse_loss.mean() + batch.policy.act_hat.logsumexp(1).mean()
    expected = mse_loss.mean() + act_hat.logsumexp(1).mean()
    for grad, expected_grad in zip(gradients(model, loss), gradients(reference, expected), strict=True):
        assert torch.equal(grad, expected_grad)
