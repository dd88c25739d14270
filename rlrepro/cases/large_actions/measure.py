"""What the chapter measures, a function per step: each runs workloads and adds records to the bench."""

from importlib import import_module
from threading import Thread

import torch

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.large_actions import (
    ACTIONS,
    ARTICLE_ACTIONS,
    BATCH,
    CAPACITY,
    CARD_GIB,
    COPIES,
    EMBEDDED,
    FEATURES,
    STATE,
    fixed_workloads,
    nearest_point_env,
    pearl,
    predicted_bytes,
    torchrl_encoding,
)
from rlrepro.cases.large_actions.fixed_workloads import UPDATES
from rlrepro.cases.large_actions.pearl_backend import PearlBackend
from rlrepro.cases.large_actions.pearl_reimplementation import network, q_values
from rlrepro.fixes import FactoredQ
from rlrepro.lab import Release, peak_memory, this_machine

ONE_HOT_ROWS = 4  # transitions in a one-hot batch
LEAK_CAPACITY = 2 * BATCH
LIMIT_BYTES = 5 * 2**30  # of FactoredQ on a GPU of CARD_GIB


def stored_by_actions(bench: Bench, backend: PearlBackend) -> None:
    """The parts of a stored transition, with integer actions and with those of Pearl#72."""
    for count in bench.settings.action_counts:
        for features in (1, FEATURES):
            _add_stored(bench, backend, count, features)


def bytes_without_states(bench: Bench, backend: PearlBackend) -> int:
    """Bytes of a transition with `ACTIONS` integer actions, without its two states."""
    parts = backend.run(pearl.stored, ACTIONS, 1)
    return sum(size for part, size in parts.items() if "state" not in part)


def update_peaks(bench: Bench, backend: PearlBackend) -> None:
    """Peak of the learner's whole update, by the number of actions. For the most actions, also what each further state
    of the batch adds to it, which excludes everything that does not grow with the batch."""
    for count in bench.settings.action_counts:
        rows = bench.settings.batch_size(count)
        peak = backend.run(pearl.update_peak, count, 1, rows, bench.device)
        bench.add("update_peak", peak, source=backend.source, actions=count, rows=rows, features=1)
    half_rows = rows // 2
    extra = peak - backend.run(pearl.update_peak, count, 1, half_rows, bench.device)
    bench.add("update_per_state", extra / (rows - half_rows), source=backend.source, actions=count)


def since_start(bench: Bench, backend: PearlBackend) -> None:
    """Peak of an update, and bytes in the buffer, while the buffer fills."""
    steps, count = bench.settings.transitions_stored, bench.settings.leak_actions
    sizes_by_step = backend.run(pearl.since_start, count, 1, list(steps), LEAK_CAPACITY, bench.device)
    for stored, sizes in zip(steps, sizes_by_step, strict=True):
        for name, size in sizes.items():
            bench.add(f"since_start_{name}", size, stored=stored, actions=count, source=backend.source)


def torchrl_encodings(bench: Bench) -> None:
    """Bytes of a stored action in TorchRL, and the peak of a DQN update, one-hot and categorical."""
    for encoding, categorical in (("one-hot", False), ("categorical", True)):
        sizes = torchrl_encoding.measure(ACTIONS, categorical=categorical, device=bench.device)
        for name, size in sizes.items():
            bench.add(f"torchrl_{name}", size, encoding=encoding, actions=ACTIONS)
    bench.add("torchrl_action", torchrl_encoding.spec_bytes(ACTIONS), encoding="spec", actions=ACTIONS)


def pearl_batches(bench: Bench, backend: PearlBackend) -> None:
    """Peak of preparing a batch in Pearl, with actions as one-hot vectors and as integers."""
    for count in bench.settings.one_hot_counts:
        for encoding in ("one-hot", "integer"):
            peak = backend.run(pearl.batch_peak, count, ONE_HOT_ROWS, one_hot=encoding == "one-hot")
            bench.add("batch_peak", peak, encoding=encoding, actions=count, rows=ONE_HOT_ROWS, source=backend.source)


def article_fixes(bench: Bench, backend: PearlBackend) -> None:
    """The parts of a stored transition with a history, a bootstrap buffer, or embeddings."""
    count = max(bench.settings.action_counts)
    for length in bench.settings.history_lengths:
        _add_stored(bench, backend, count, 1, history=length)
    _add_stored(bench, backend, count, 1, copies=COPIES)
    _add_stored(bench, backend, count, EMBEDDED)


def _add_stored(bench: Bench, backend: PearlBackend, count: int, features: int, **options) -> None:
    setting = {"actions": count, "features": features, "history": None, "copies": None} | options
    for part, size in backend.run(pearl.stored, count, features, **options).items():
        bench.add("stored", size, scheme="pearl", source=backend.source, part=part, **setting)


def shared_storage(bench: Bench) -> tuple[int, float]:
    """Bytes of a transition without its states at the article's size, in Pearl's scheme and in a SharedActionBuffer."""
    parts = fixed_workloads.stored(ARTICLE_ACTIONS, FEATURES, CAPACITY)
    for part, size in parts.items():
        bench.add("stored", size, scheme="ours", part=part, actions=ARTICLE_ACTIONS, features=FEATURES)
    pearl_bytes, shared = (
        sum(size for part, size in sizes.items() if "state" not in part)
        for sizes in (predicted_bytes.transition(ARTICLE_ACTIONS, FEATURES), parts)
    )
    bench.add("stored_ratio", pearl_bytes / shared, actions=ARTICLE_ACTIONS)
    return pearl_bytes, shared


def planned_peaks(bench: Bench) -> None:
    """Planned peaks of one critic's update with a whole batch, plain and factored."""
    for way, make_update in UPDATES.items():
        for count in sorted({*bench.settings.action_counts, *bench.settings.critic_counts, ARTICLE_ACTIONS}):
            planned = fixed_workloads.planned_peak(make_update, count, FEATURES, BATCH)
            bench.add("planned_peak", planned, way=way, actions=count, rows=BATCH)
    setting = {"actions": ARTICLE_ACTIONS, "rows": BATCH}
    plain, factored = (bench.records.get("large_actions.planned_peak", way=way, **setting).value for way in UPDATES)
    bench.add("planned_ratio", plain / factored, **setting)


def value_difference(bench: Bench) -> float:
    """The largest difference between a network's values and those of the FactoredQ made from it."""
    net = network(STATE + FEATURES, 1).to(bench.device)
    states, actions = torch.rand(4, STATE, device=bench.device), torch.rand(500, FEATURES, device=bench.device)
    with torch.no_grad():
        expected = q_values(net, states, actions.expand(4, -1, -1))
        factored = FactoredQ.from_sequential(net, STATE)(states, actions)
    return bench.add("value_difference", (factored - expected).abs().max()).value


def critic_peaks(bench: Bench) -> None:
    """Measured peaks of one critic's update: with a whole batch, and at the sizes that are timed, if they fit."""
    for count in bench.settings.critic_counts:
        for way, make_update in UPDATES.items():
            _add_critic_peak(bench, way, make_update, count, BATCH)
    if bench.settings.runs_article_size:
        _add_critic_peak(bench, "factored", UPDATES["factored"], ARTICLE_ACTIONS, BATCH, warmup=0)
    for count, rows in bench.settings.timed_sizes:
        for way, make_update in UPDATES.items():
            planned = fixed_workloads.planned_peak(make_update, count, FEATURES, rows)
            bench.add("planned_peak", planned, way=way, actions=count, rows=rows)
            if planned <= fixed_workloads.FREE_SHARE * fixed_workloads.free_bytes(bench.device):
                _add_critic_peak(bench, way, make_update, count, rows, warmup=way == "factored")


def _add_critic_peak(bench: Bench, way: str, make_update, count: int, rows: int, warmup: int = 1) -> None:
    peak = peak_memory(make_update(count, FEATURES, rows, bench.device), device=bench.device, warmup=warmup).peak_bytes
    bench.add("critic_peak", peak, way=way, actions=count, rows=rows)


def largest_action_counts(bench: Bench) -> dict[int, int]:
    """Adds the most actions that the plain critic fits on a GPU, and the multiples of that number that FactoredQ fits.
    Returns FactoredQ's planned bytes by the number of actions."""
    card_bytes = int(CARD_GIB * 2**30)
    plain = fixed_workloads.largest_plain(FEATURES, BATCH, card_bytes)
    bench.add("largest", plain, way="plain")
    peaks = {}
    for multiple in bench.settings.multiples:
        count = multiple * plain
        peak = fixed_workloads.planned_peak(UPDATES["factored"], count, FEATURES, BATCH, memory_limit=LIMIT_BYTES)
        if peak > card_bytes:
            break
        bench.add("largest", count, way="factored")
        peaks[count] = peak
    return peaks


def update_with_factored_critics(bench: Bench, backend: PearlBackend) -> None:
    """Pearl's own update again, with PearlFactoredQ as its critics. This needs Pearl itself."""
    if backend.source == "pearl":
        count = max(bench.settings.action_counts)
        rows = bench.settings.batch_size(count)
        peak = backend.run(pearl.update_peak, count, 1, rows, bench.device, factored=True)
        bench.add("update_peak_factored", peak, source=backend.source, actions=count, rows=rows)
        if bench.settings.runs_article_size:
            _add_article_updates(bench, backend)


def _add_article_updates(bench: Bench, backend: PearlBackend) -> None:
    """The same at the article's size, with Pearl's own critics too where the device has the memory for them."""
    per_state = bench.records.get("large_actions.update_per_state")
    plain_bytes = BATCH * per_state.value * ARTICLE_ACTIONS / per_state.setting["actions"]
    fits = plain_bytes <= fixed_workloads.FREE_SHARE * fixed_workloads.free_bytes(bench.device)
    for way in ("plain", "factored") if fits else ("factored",):
        options = {"factored": way == "factored"}
        peak = backend.run(pearl.update_peak, ARTICLE_ACTIONS, 1, BATCH, bench.device, **options)
        bench.add("article_update", peak, way=way, source=backend.source, actions=ARTICLE_ACTIONS, rows=BATCH)


def start_training_process(bench: Bench) -> None:
    """Start the process of the training runs in the background: its imports take as long as this process's."""
    Thread(target=_training_process(bench).run, args=(import_module, nearest_point_env.__name__)).start()


def training(bench: Bench) -> None:
    """Rewards, values and resident memory of training runs, in a process of their own."""
    settings = bench.settings
    with _training_process(bench) as process:
        for method in settings.training_methods:
            arguments = settings.training_updates, bench.seed, bench.device, settings.training_actions
            result = process.run(nearest_point_env.train, method, *arguments)
            resident = result.pop("resident")
            for name, value in result.items():
                bench.add(f"training_{name}", value, method=method, actions=settings.training_actions)
            bench.add("resident_growth", resident[-1] / resident[0], method=method)
            bench.add("resident", max(resident), method=method)


def _training_process(bench: Bench) -> Release:
    return bench.release(f"torchrl=={this_machine().versions['torchrl']}")
