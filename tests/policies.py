"""The weights of a policy, and the distance between two policies."""

from torch.nn.utils import parameters_to_vector


def weights(policy):
    return parameters_to_vector(policy.parameters()).detach()


def distance(policy, other) -> float:
    """The largest absolute difference between two weights."""
    return float((weights(policy) - weights(other)).abs().max())
