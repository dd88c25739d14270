"""SharedActionBuffer refuses what it can't store."""

import pytest
import torch
from torchrl.data import ListStorage

from rlrepro.fixes import SharedActionBuffer

from .test_shared_action_buffer import TABLE, transitions


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda data: data.update({"action": data["action"] + 25}), r"0 to 26; found \[27, 28"),
        (lambda data: data.update({"action": data["action"] - 2}), r"found \[-2"),
        (lambda data: data.update({"action": torch.eye(5, dtype=torch.bool)}), r"whole numbers of shape \(5,\)"),
        (lambda data: data.update({"action": data["action"].float()}), "found torch.float32"),
        (
            lambda data: data["action_mask"][2].fill_(False),
            r"action_mask must allow an action, .* it allows none in transitions \[\[2\]\]",
        ),
        (lambda data: data.update({"action_mask": data["action_mask"][:, :9]}), r"must be bool of shape \(5, 27\)"),
        (lambda data: data["next"].update({"action_mask": torch.ones(5, 27)}), r"'next', .*found torch.float32"),
        (lambda data: data["next"].pop("action_mask"), r"action_mask without \('next', 'action_mask'\)"),
    ],
)
def test_a_wrong_transition_is_refused_and_nothing_is_stored(change, message):
    buffer, data = SharedActionBuffer(10, TABLE), transitions(5, masks=3)
    change(data)
    with pytest.raises(ValueError, match=message):
        buffer.extend(data)
    assert len(buffer) == 0


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"a table \(A, d\).*found \(27,\)"):
        SharedActionBuffer(10, torch.arange(27))
    with pytest.raises(ValueError, match=r"does not take \['prefetch'\]"):
        SharedActionBuffer(10, TABLE, prefetch=3)
    with pytest.raises(ValueError, match=r"does not take \['shared'\]"):
        SharedActionBuffer(10, TABLE, shared=True)
    with pytest.raises(ValueError, match=r"must hold tensors.*found ListStorage"):
        SharedActionBuffer(10, TABLE, storage=ListStorage(10))
    with pytest.raises(ValueError, match="takes no transform"):
        SharedActionBuffer(10, TABLE).append_transform(None)


def test_an_action_that_its_mask_forbids_is_refused():
    data = transitions(4, masks=5)
    data["action_mask"][2, data["action"][2]] = False
    with pytest.raises(ValueError, match=r"transitions \[\[2\]\] have an action that action_mask forbids"):
        SharedActionBuffer(20, TABLE).extend(data)
