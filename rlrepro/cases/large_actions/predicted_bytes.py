"""What the shapes predict of Pearl's scheme, part by part. Numbers are of 4 bytes, masks of 1."""

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
    """Bytes of each part of the learner's update, for one row of the batch, when the most is live: the target critics
    are evaluated while the graph of both critics is still held from the actor's backward pass."""
    pair = NUMBER * count  # bytes of one number for each action
    return {
        "graph of both critics: state and action, for each action": 2 * pair * (STATE + features),
        "graph of both critics: hidden layers": 2 * pair * sum(HIDDEN),
        "target critic: the state, repeated": pair * STATE,
        "target critic: state and action, for each action": pair * (STATE + features),
        "target critic: first layer, before and after its ReLU": 2 * pair * HIDDEN[0],
    }
