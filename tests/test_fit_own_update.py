"""The user's own updates: planned to the byte, and compared with a virtual card that counts live bytes."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist, squareform
from torch import nn

from rlrepro.fit import CannotPlan, keeps_all, plan_update, reads, stage
from rlrepro.fit.host_memory import HostArrays

from . import own_updates
from .own_updates import Tiny, learn, measured

GIB = 2**30


@pytest.mark.parametrize("name", own_updates.UPDATES)
def test_six_single_file_updates_are_planned_to_the_byte(name):
    make, step = own_updates.UPDATES[name]
    planned = plan_update(make, step, device="cpu")
    assert max(planned.stages.values()) == measured(make, step)


@pytest.mark.slow
@pytest.mark.parametrize("name", own_updates.UPDATES)
def test_tensors_that_a_script_moves_to_the_card_are_on_it(name, monkeypatch):
    make, step = own_updates.UPDATES[name]
    on_cpu = plan_update(make, step, device="cpu")
    monkeypatch.setattr(own_updates, "DEVICE", "cuda")
    on_card = plan_update(make, step, device="cuda")
    if name == "PPO":
        assert set(on_card.stages) == {"make", "collect", "learn", "update"}
    if name != "PPO-LSTM":  # cuDNN keeps other tensors
        assert max(on_card.stages.values()) == pytest.approx(max(on_cpu.stages.values()), rel=0.35)  # optimizers differ


def test_a_replay_buffer_is_counted_in_host_memory(monkeypatch):
    make, step = own_updates.make_sac, own_updates.sac
    monkeypatch.setattr(own_updates, "DEVICE", "cuda")
    small, large = (plan_update(make, step, capacity=size) for size in (100_000, 100_000_000))
    per_transition = (24 + 24 + 4 + 1 + 1) * 4
    assert large.host_bytes - small.host_bytes == (100_000_000 - 100_000) * per_transition
    assert large.stages == small.stages and "host memory" in str(large)


@pytest.mark.slow
def test_the_largest_batch_fits_and_one_more_does_not():
    make, step = own_updates.UPDATES["DQN"]
    planned = plan_update(make, step, device="cpu", device_memory_gib=4 * 2**20 / GIB)
    size = planned.largest("batch_size")
    assert size > 500 and planned.at(batch_size=size).fits() and not planned.at(batch_size=size + 1).fits()
    rounded = planned.largest("batch_size", multiple_of=64)
    assert rounded == size // 64 * 64 and planned.largest("batch_size", 1e-5) == 0


def accumulated(state, batch_size=32):
    for _ in range(4):
        state.net(torch.zeros(batch_size, 64)).square().mean().div(4).backward()
    state.optimizer.step()
    state.optimizer.zero_grad()


def checkpointed(state, batch_size=512):
    rows = torch.zeros(batch_size, 64)
    for _ in range(3):
        rows = torch.utils.checkpoint.checkpoint(lambda x: state.net(x).tanh().exp(), rows, use_reentrant=False)
    learn(state, rows.mean())


def functional(state, batch_size=32):
    weights = dict(state.net.named_parameters())
    loss = torch.func.grad(lambda w, x: torch.func.functional_call(state.net, w, x).square().mean())
    torch.func.vmap(loss, (None, 0))(weights, torch.zeros(batch_size, 64))


def mixed(state, batch_size=512):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = state.net(torch.zeros(batch_size, 64)).square().mean()
    learn(state, loss)


def checked(state, batch_size=512):
    with torch.autograd.detect_anomaly(check_nan=True):
        learn(state, state.net(torch.zeros(batch_size, 64)).square().mean())


@pytest.mark.parametrize("step", [accumulated, checkpointed, functional, mixed, checked])
def test_other_ways_to_update_are_planned_to_the_byte(step):
    assert plan_update(Tiny, step, device="cpu").stages["update"] == measured(Tiny, step)


def test_a_gradient_scaler_takes_its_step_and_half_precision_is_smaller():
    def make():
        state = Tiny("cuda")
        state.scaler = torch.amp.GradScaler("cuda")
        return state

    def step(state, batch_size=4096, enabled=1):
        with torch.autocast("cuda", dtype=torch.float16, enabled=enabled == 1):
            loss = state.net(torch.zeros(batch_size, 64, device="cuda")).relu().mean()
        state.scaler.scale(loss).backward()
        state.scaler.step(state.optimizer)
        state.scaler.update()
        assert state.optimizer.state and state.net.weight.device.type == "cuda"

    half, full = plan_update(make, step), plan_update(make, step, enabled=2)
    assert half.stages["update"] != full.stages["update"]


def test_a_compiled_module_is_planned_as_eager_and_says_so():
    def make():
        state = Tiny()
        state.net = torch.compile(state.net)
        return state

    def step(state):
        learn(state, state.net(torch.zeros(8, 64)).mean())

    planned = plan_update(make, step, device="cpu")
    assert "torch.compile" in planned.notes[0] and planned.stages == plan_update(Tiny, step, device="cpu").stages


def test_the_user_says_which_branch():
    def step(state, large, batch_size=8):
        with reads(large == 2):
            if state.net(torch.zeros(batch_size, 64)).sum() > 0:
                torch.zeros(1_000_000)

    peaks = [plan_update(Tiny, step, device="cpu", large=large).stages["update"] for large in (2, 1)]
    assert peaks[0] - peaks[1] > 3_900_000


def grows(state):
    state.losses = [*getattr(state, "losses", []), state.net(torch.zeros(8, 64))]  # the line


def chooses(state):
    rows = torch.zeros(8, 64)
    state.net(rows[rows.sum(1) > 0])  # the line


def fails(state):
    state.net(torch.zeros(8, 3))  # the line


def on_host(state):
    state.net(torch.zeros(8, 64))


def packs(state):
    nn.utils.rnn.pack_padded_sequence(torch.zeros(5, 8, 64), torch.randint(1, 6, (8,)), enforce_sorted=False)


def is_lazy(state):
    nn.LazyLinear(8)(torch.zeros(8, 64))


def counts_classes(state):
    state.net(nn.functional.one_hot(torch.randint(64, (8,))).float())  # the line


@pytest.mark.parametrize(
    "step, device, message",
    [
        (grows, "cpu", r"more bytes in use: .*# the line"),
        (chooses, "cpu", r"nonzero[\s\S]*# the line[\s\S]*fixed size"),
        (fails, "cpu", r"RuntimeError[\s\S]*# the line"),
        (on_host, "cuda", "the update uses nothing on cuda"),
        (packs, "cpu", "packed sequences can't be planned: pass padded ones"),
        (is_lazy, "cpu", "nn.Linear for nn.LazyLinear"),
        (counts_classes, "cpu", r"note: a whole number read from a tensor is taken to be 1.*# the line"),
    ],
)
def test_code_that_cant_be_planned_is_named_with_its_line(step, device, message):
    with pytest.raises(CannotPlan, match=message):
        plan_update(Tiny, step, device=device)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"rows": 8}, "make and step have no size rows; their sizes are batch_size"),
        ({"device": "tpu"}, "device must be cuda or cpu"),
        ({"step": 3}, "step must be a function"),
        ({"step": lambda state, rows: None}, r"called as <lambda>\(state\): missing a required argument: 'rows'"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(CannotPlan, match=message):
        plan_update(**{"make": Tiny, "step": accumulated, "device": "cpu"} | change)


def test_planning_leaves_torch_and_numpy_as_they_were():
    before = np.zeros, torch.compile, torch.cuda.is_available(), torch.rand(1).requires_grad
    plan_update(lambda: Tiny("cuda"), lambda state, batch_size=8: stage("x").__enter__())
    assert before == (np.zeros, torch.compile, torch.cuda.is_available(), torch.rand(1).requires_grad)


def masked(state, batch_size=64):
    rows = torch.zeros(batch_size, 64)
    mask = rows.sum(1) == 0
    with keeps_all():
        learn(state, state.net(rows)[mask].exp().mean())


def test_masks_that_keep_every_row_are_planned_to_the_byte():
    assert plan_update(Tiny, masked, device="cpu").stages["update"] == measured(Tiny, masked)


def test_compiled_code_gets_real_arrays():
    """It fills them, and would write beyond an array without memory. A plan within a plan changes nothing."""
    count = 2**18  # one array takes 2 MiB

    def step(network):
        samples = [np.random.randint(0, 5, size=count), np.random.default_rng(0).standard_normal(count)]
        assert all(len(np.unique(array)) > 1 for array in samples)
        assert squareform(pdist(samples[1][:1000, None])).any()  # SciPy's, as in rewards for novelty
        network(torch.ones(4, 3, device="cuda")).sum().backward()

    with HostArrays():
        planned = plan_update(lambda: nn.Linear(3, 3, device="cuda"), step)
    assert max(planned.host_stages.values()) >= 2 * count * 8
    assert np.random.mtrand.np is np


def padded(state, batch_size=64):
    lengths = torch.randint(40, 50, (batch_size,))
    learn(state, state.net(torch.zeros(batch_size, int(lengths.max()), 64)).mean())


def test_a_size_that_is_read_from_a_tensor_is_noted():
    (text,) = plan_update(Tiny, padded, device="cpu").notes
    assert "taken to be 1, even if it is a size" in text and "int(lengths.max())" in text


def test_a_comparison_of_whole_tensors_takes_the_branch_of_its_user():
    def step(state, equal, batch_size=8):
        rows = torch.zeros(batch_size, 64)
        with reads(equal == 1):
            torch.zeros(100_000 if torch.equal(rows, state.net(rows)) and torch.allclose(rows, rows + 1) else 1)

    peaks = [plan_update(Tiny, step, device="cpu", equal=equal).stages["update"] for equal in (1, 2)]
    assert peaks[0] - peaks[1] > 390_000
