"""The weights of a policy, and how far two policies are apart."""

from torch.nn.utils import parameters_to_vector


def weights(policy):
    return parameters_to_vector(policy.parameters()).detach()


def distance(policy, other) -> float:
    """The largest difference of a weight."""
    return float((weights(policy) - weights(other)).abs().max())
