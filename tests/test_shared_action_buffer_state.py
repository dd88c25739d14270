"""The state of a SharedActionBuffer: what torch.save keeps, and that of a buffer with another table."""

import numpy as np
import pytest
import torch
from torchrl.data import LazyMemmapStorage, LazyTensorStorage

from rlrepro.fixes import SharedActionBuffer

from .test_shared_action_buffer import TABLE, check, transitions


@pytest.mark.filterwarnings("ignore:Loading the storage on an uninitialized TensorDict")
@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
def test_its_state_can_be_loaded_with_weights_only(storage, tmp_path):
    first, second = (SharedActionBuffer(30, TABLE, storage=storage(30), batch_size=100) for _ in range(2))
    first.extend(transitions(30, masks=5))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    check(second.sample(), 5)


def test_a_state_with_arrays_can_be_loaded():
    """Earlier versions saved masks as an array, without their width."""
    first, second = (SharedActionBuffer(30, TABLE, batch_size=100) for _ in range(2))
    first.extend(transitions(30, masks=5))
    state = first.state_dict()
    masks = state["masks"]
    state["masks"] = {name: masks[name] for name in ("masked", "numbers")} | {"masks": np.asarray(masks["masks"])}
    second.load_state_dict(state)
    check(second.sample(), 5)


@pytest.mark.parametrize("saved, loaded", [(8, 6), (6, 27)])
def test_a_state_of_another_table_is_refused_and_nothing_is_loaded(saved, loaded, tmp_path):
    source, buffer = (SharedActionBuffer(10, TABLE[:count]) for count in (saved, loaded))
    source.extend(transitions(5, masks=3, table=TABLE[:saved]))
    source.dumps(tmp_path / "buffer")
    for load, state in ((buffer.load_state_dict, source.state_dict()), (buffer.loads, tmp_path / "buffer")):
        with pytest.raises(ValueError, match=f"a table of {loaded} actions, found one of {saved}: make the buffer"):
            load(state)
        assert len(buffer) == 0


def test_a_state_of_an_earlier_version_is_refused_by_the_size_of_its_masks():
    source, buffer = SharedActionBuffer(10, TABLE), SharedActionBuffer(10, TABLE[:6])
    source.extend(transitions(5, masks=3))
    state = source.state_dict()
    state["masks"].pop("width")
    with pytest.raises(ValueError, match="a table of 6 actions, found one of 25 to 32"):
        buffer.load_state_dict(state)
