import numpy as np
import pytest
import torch
from torch import nn

from rlrepro.cases.common.networks import NETWORKS
from rlrepro.lab import NoGPUError, VirtualCard, peak_memory
from rlrepro.lab.virtual_card import as_out_of_memory

MIB = 2**20


def card(mib):
    return VirtualCard(mib / 1024, device="cpu")


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8)


def test_raises_torchs_own_error_with_the_operator_and_its_size():
    with card(10) as virtual_card:
        tensor = block(6)
        with pytest.raises(torch.OutOfMemoryError) as raised:
            torch.zeros(5 * MIB, dtype=torch.uint8)
        for part in ("aten.zeros", "5.0 MiB", "6.0 MiB live", "10.0 MiB allowed"):
            assert part in str(raised.value)
        block(4)  # a refused tensor is not counted
        assert virtual_card.live_bytes == tensor.nbytes


def test_refuses_before_it_allocates():
    with card(10), pytest.raises(torch.OutOfMemoryError, match="TiB"):
        torch.zeros(2**44, dtype=torch.uint8)


def test_counts_a_storage_once_however_many_views_it_has():
    with card(10) as virtual_card:
        base = block(6)
        views = [base.view(2, -1), base[:100], base.view(-1, 4).t()]
        assert virtual_card.live_bytes == 6 * MIB
        del base
        assert virtual_card.live_bytes == 6 * MIB  # the views still hold it
        del views
        assert virtual_card.live_bytes == 0


def test_in_place_operators_take_nothing():
    with card(10) as virtual_card:
        values = torch.zeros(MIB)  # 4 MiB
        for _ in range(10):
            values.add_(1).relu_().mul_(2)
        assert virtual_card.peak_bytes == 4 * MIB


def test_counts_a_storage_that_is_resized():
    with card(10) as virtual_card:
        values = block(1)
        values.resize_(7 * MIB)
        assert virtual_card.live_bytes == 7 * MIB
        values.untyped_storage().resize_(0)
        values.resize_(MIB)
        assert virtual_card.live_bytes == MIB


def test_counts_earlier_tensors_once_they_are_used():
    network, rows = nn.Linear(1000, 1000, bias=False), torch.randn(10, 1000)
    with card(10) as virtual_card:
        out = network(rows)
        assert virtual_card.live_bytes == (1_000_000 + 10_000 + 10_000) * 4
        del out


def test_memory_borrowed_from_numpy_is_not_on_the_card():
    with card(1) as virtual_card:
        torch.from_numpy(np.zeros(64 * MIB, dtype=np.uint8))[:5].sum()
    assert virtual_card.peak_bytes < 1000


def test_an_exception_leaves_the_count_right():
    with card(10) as virtual_card:
        with pytest.raises(RuntimeError, match="shape"):
            torch.ones(3, 4) @ torch.ones(5, 6)
        with pytest.raises(torch.OutOfMemoryError):
            block(11)
        assert virtual_card.live_bytes == 0
    assert block(11).nbytes == 11 * MIB  # outside, there is no card


def test_nested_cards_each_count():
    with card(20) as outer:
        tensor = block(8)
        with card(5) as inner:
            with pytest.raises(torch.OutOfMemoryError, match=r"5\.0 MiB allowed"):
                block(6)
            small = block(4)
            assert (inner.live_bytes, outer.live_bytes) == (4 * MIB, 12 * MIB)
        with pytest.raises(torch.OutOfMemoryError, match=r"12\.0 MiB live and 20\.0 MiB allowed"):
            block(9)
        del tensor, small
        assert outer.live_bytes == 0


def test_operators_without_a_shape_in_advance_are_counted_after_they_ran():
    with card(10) as virtual_card:
        indices = torch.ones(1000).nonzero()
        assert virtual_card.live_bytes == indices.nbytes


def test_a_whole_training_step_gives_the_same_result():
    def step():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(network.parameters())
        network(torch.randn(20, 5)).sum().backward()
        optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])

    with card(10):
        inside = step()
    assert torch.equal(inside, step())


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("rows, share", [(1, 0), (64, 0.75), (256, 0.75)])
def test_agrees_with_the_profiler_on_a_forward_pass(name, rows, share):
    """Within 25% of the allocator's own account, and never above it: operators' temporaries are not tensors. For a
    single row, these temporaries are as large as the weights and make up most of the memory."""
    network = NETWORKS[name](6)
    frames = torch.rand(rows, 4, 84, 84)

    def forward():
        with torch.no_grad():
            return network(frames)

    with card(1024) as virtual_card:
        forward()
        at_entry = virtual_card.live_bytes
        forward()
    counted, measured = virtual_card.peak_bytes - at_entry, peak_memory(forward, device="cpu").peak_bytes
    assert share * measured <= counted <= measured


def test_growth_of_a_given_tensor_is_refused_before_it_happens():
    with card(10):
        values, out = block(1), torch.empty(0, dtype=torch.uint8)
        with pytest.raises(torch.OutOfMemoryError, match="resize_"):
            values.resize_(64 * MIB)
        assert values.untyped_storage().nbytes() == MIB
        with pytest.raises(torch.OutOfMemoryError, match="add"):
            torch.add(torch.ones(2 * MIB), 1, out=out.float())
        assert out.numel() == 0


def test_sparse_tensors_count_by_their_parts():
    with card(10), pytest.raises(torch.OutOfMemoryError):
        tensors = [torch.ones(MIB // 4).to_sparse() for _ in range(20)]  # 3 MiB each
        assert tensors


def test_tensors_elsewhere_are_not_on_this_card():
    with card(1):
        torch.empty(2**40, device="meta")
        with torch.device("meta"):
            nn.Linear(10_000, 10_000)


def test_a_card_is_entered_once_at_a_time_and_can_be_used_again():
    virtual_card = card(5)
    assert virtual_card.live_bytes == virtual_card.peak_bytes == 0
    with virtual_card, pytest.raises(RuntimeError, match="been entered already"), virtual_card:
        pass
    block(6)  # no card is left behind
    with virtual_card:
        tensor = block(4)
        assert virtual_card.live_bytes == tensor.nbytes


def test_rejects_a_size_that_is_not_positive():
    for size in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            VirtualCard(size, device="cpu")


def test_says_that_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoGPUError, match="'cpu' or 'auto'"):
        VirtualCard(8, device="cuda")


def test_a_refusal_is_not_remembered_for_a_smaller_call():
    with VirtualCard(0.01, device="cpu"), torch.inference_mode():
        picture = torch.zeros(1, 1, 64, 64)
        with pytest.raises(torch.OutOfMemoryError):
            torch.nn.functional.interpolate(picture, scale_factor=32.0)
        assert torch.nn.functional.interpolate(picture, scale_factor=2.0).shape[-1] == 128


def test_the_default_precision_is_part_of_a_call():
    try:
        with VirtualCard(0.01, device="cpu"):
            torch.set_default_dtype(torch.float64)
            with pytest.raises(torch.OutOfMemoryError):
                torch.zeros(2_000_000)
            torch.set_default_dtype(torch.float32)
            assert torch.zeros(2_000_000).dtype is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_card_without_a_limit_only_counts():
    with VirtualCard(None, device="cpu") as virtual_card:
        tensor = block(64)
    assert virtual_card.peak_bytes == tensor.nbytes and virtual_card.limit_bytes is None


def test_a_convolution_without_room_is_out_of_memory_too():
    """cuDNN tries one algorithm after another, and then raises another error."""
    with pytest.raises(torch.OutOfMemoryError, match="unable to find an engine"), as_out_of_memory():
        raise RuntimeError("GET was unable to find an engine to execute this computation")
    for error in (RuntimeError("a shape"), torch.OutOfMemoryError("full")):
        with pytest.raises(RuntimeError) as raised, as_out_of_memory():
            raise error
        assert raised.value is error


def test_a_card_with_a_limit_takes_nested_tensors():
    """They have no size; torch's fast path of a padded encoder makes them."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).eval()
    with VirtualCard(8, device="cpu"), torch.no_grad():
        result = encoder(torch.randn(4, 6, 16), src_key_padding_mask=torch.zeros(4, 6, dtype=torch.bool))
    assert result.shape == (4, 6, 16)
