"""plan_torchrl(make, ...): an update by one of TorchRL's losses, with a full replay buffer."""

from collections.abc import Callable

from rlrepro.fit.marks import stage
from rlrepro.fit.memory_plan import CannotPlan, Plan
from rlrepro.fit.own_update import plan_update
from rlrepro.fit.step_sizes import accepted


def plan_torchrl(
    make: Callable[..., tuple],
    transition: Callable[[int], object],
    *,
    batch_size: int = 256,
    device: str = "cuda",
    device_memory_gib: float | None = None,
    **sizes: int,
) -> Plan:
    """Plan an update by a loss of TorchRL: a batch is sampled, its losses are added up, and the optimizer and the
    target networks are updated.

    Args:
        make: returns (loss, optimizer, buffer, target_updater): a LossModule; an optimizer of its parameters; a
            ReplayBuffer, on the GPU or in host memory, depending on its storage; a SoftUpdate, a HardUpdate or None
        transition: returns that many transitions for the buffer: a TensorDict with what the loss reads
        batch_size: samples per gradient step
        sizes: arguments of `make`, such as `buffer_size`
        device, device_memory_gib: as in `plan_update`

    Raises CannotPlan as `plan_update` does, and if `make()` returns anything else.
    """
    from torchrl.data import ReplayBuffer
    from torchrl.objectives import LossModule

    def make_state(**all_sizes):
        state = make(**accepted(make, all_sizes))
        kinds = [type(part).__name__ for part in state] if isinstance(state, tuple) else type(state).__name__
        if len(kinds) != 4 or not (isinstance(state[0], LossModule) and isinstance(state[2], ReplayBuffer)):
            raise CannotPlan(f"make must return (loss, optimizer, replay buffer, target updater); found {kinds}")
        buffer = state[2]
        buffer.extend(transition(1))
        buffer.storage._len = buffer.storage.max_size
        return state

    def step(state, batch_size):
        loss, optimizer, buffer, updater = state
        with stage("sample"):
            batch = buffer.sample(batch_size)
            batch = batch.to(next(loss.parameters()).device)
        with stage("learn"):
            losses = loss(batch)
            sum(value for name, value in losses.items() if name.startswith("loss")).backward()
            optimizer.step()
            optimizer.zero_grad()
            if updater is not None:
                updater.step()

    if unknown := sizes.keys() - accepted(make, sizes).keys():
        raise CannotPlan(f"make has no size {', '.join(sorted(unknown))}")
    return plan_update(
        make_state, step, device=device, device_memory_gib=device_memory_gib, batch_size=batch_size, **sizes
    )
