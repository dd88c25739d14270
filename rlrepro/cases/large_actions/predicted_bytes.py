"""Bytes in Pearl's scheme, part by part, predicted from shapes: 4 bytes per float, 1 per mask entry."""

from rlrepro.cases.large_actions import HIDDEN, STATE

FLOAT_BYTES = 4


def transition(count: int, features: int) -> dict[str, int]:
    """Bytes of each part of one stored transition."""
    return {
        "available now": FLOAT_BYTES * count * features,
        "available next": FLOAT_BYTES * count * features,
        "masks": 2 * count,
        "state": FLOAT_BYTES * STATE,
        "next state": FLOAT_BYTES * STATE,
        "action": FLOAT_BYTES * features,
    }


def update(count: int, features: int) -> dict[str, int]:
    """Bytes of each part of the learner's update at its peak, per state of the batch. At the peak, the target critics
    are evaluated while the graph of both critics is still alive after the actor's backward pass."""
    per_action = FLOAT_BYTES * count
    return {
        "graph of both critics: state and action, per action": 2 * per_action * (STATE + features),
        "graph of both critics: hidden layers": 2 * per_action * sum(HIDDEN),
        "target critic: the state, repeated": per_action * STATE,
        "target critic: state and action, per action": per_action * (STATE + features),
        "target critic: input of the second layer, before and after its ReLU": per_action * (HIDDEN[0] + 2 * HIDDEN[1]),
    }
