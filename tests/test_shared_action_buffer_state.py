"""The state of a SharedActionBuffer: what torch.save keeps, and that of a buffer with another table."""

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


@pytest.mark.parametrize("saved, loaded", [(8, 6), (6, 27)])
def test_a_state_of_another_table_is_refused_and_nothing_is_loaded(saved, loaded, tmp_path):
    source, buffer = (SharedActionBuffer(10, TABLE[:count]) for count in (saved, loaded))
    source.extend(transitions(5, masks=3, table=TABLE[:saved]))
    source.dumps(tmp_path / "buffer")
    for load, state in ((buffer.load_state_dict, source.state_dict()), (buffer.loads, tmp_path / "buffer")):
        with pytest.raises(ValueError, match=f"a table of {loaded} actions, found one of {saved}: make the buffer"):
            load(state)
        assert len(buffer) == 0
