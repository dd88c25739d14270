"""Bytes in Pearl's scheme, part by part, predicted from shapes: a number takes 4 bytes, a flag of a mask 1."""

from rlrepro.cases.large_actions import HIDDEN, STATE

NUMBER = 4


def transition(count: int, features: int) -> dict[str, int]:
    """Bytes of each part of one stored transition."""
    return {
        "available now": NUMBER * count * features,
        "available next": NUMBER * count * features,
        "masks": 2 * count,
        "state": NUMBER * STATE,
        "next state": NUMBER * STATE,
        "action": NUMBER * features,
    }


def update(count: int, features: int) -> dict[str, int]:
    """Bytes of each part of the learner's update, per state of the batch, at its peak: the target critics are evaluated
    while the graph of both critics is still held after the actor's backward pass."""
    pair = NUMBER * count  # bytes of one number per action
    return {
        "graph of both critics: state and action, per action": 2 * pair * (STATE + features),
        "graph of both critics: hidden layers": 2 * pair * sum(HIDDEN),
        "target critic: the state, repeated": pair * STATE,
        "target critic: state and action, per action": pair * (STATE + features),
        "target critic: input of the second layer, before and after its ReLU": pair * (HIDDEN[0] + 2 * HIDDEN[1]),
    }
