"""Tables and lists of the chapter, in Markdown, each from records."""

import itertools

from rlrepro.cases.slice_sampler import BUGGY, FIXED, ID_BYTES, NEWEST
from rlrepro.cases.slice_sampler.claims import ARTICLE_SECONDS
from rlrepro.cases.slice_sampler.plots import LINES
from rlrepro.evidence.records import Record, Records
from rlrepro.evidence.tables import markdown_table
from rlrepro.lab.units import format_value


def article_table(records: Records, storages: tuple[str, ...] = ("cpu",)) -> str:
    """The article's three timings, and those measured with these storages; a dash where this profile has none."""
    headers = [f"{stored / 1e6:,.0f}M stored of {capacity / 1e6:,.0f}M" for stored, capacity in ARTICLE_SECONDS]
    rows = [("the article", *(format_value(seconds, "s") for seconds in ARTICLE_SECONDS.values()))]
    samplers = ("episode", "episode cached", "done", "done cached")
    for release, sampler, storage in itertools.product((BUGGY, FIXED, NEWEST), samplers, storages):
        cells = []
        for stored, capacity in ARTICLE_SECONDS:
            setting = {"stored": stored, "capacity": capacity, "release": release, "sampler": sampler}
            measured = records.where("slice_sampler.sample", storage=storage, **setting)
            cells.append(_text(measured[-1]) if measured else "–")
        suffix = ", on the GPU" if storage == "cuda" else ""
        rows.append((f"{release}, {sampler.replace('episode', 'id')}{suffix}", *cells))
    return markdown_table(("", *headers), rows)


def moved_list(records: Records) -> str:
    """Bytes that one sample moves, its time, and the ratio of the bytes to the prediction, by release and width of the
    ids; also the time of the step that does not depend on the width."""
    lines = []
    for ratio in records.all("slice_sampler.moved_of_predicted"):
        moved = records.get("slice_sampler.moved", **ratio.setting)
        release, dtype = ratio.setting["release"], ratio.setting["dtype"]
        seconds = records.get("slice_sampler.moved_in", **ratio.setting)
        lines.append(
            f"- {release}, {dtype}: {_text(moved)} moved in {_text(seconds)}, {ratio.value:.4f} times the prediction"
        )
    flags = records.get("slice_sampler.flags_in")
    lines.append(f"- finding the flags that are set (`nonzero`), in any release: {_text(flags)} of that time")
    return "\n".join(lines)


def fault_table(records: Records) -> str:
    """Page faults of one sample by episode id, next to the bytes of all ids."""
    capacity = max(record.setting["capacity"] for record in records.all("slice_sampler.page_faults"))
    faults = {
        release: records.series("slice_sampler.page_faults", "stored", release=release, capacity=capacity)
        for release in (BUGGY, NEWEST)
    }
    rows = [
        (f"{stored:,}", format_value(stored * ID_BYTES["int64"], "B"), *(f"{faults[r][stored]:,.0f}" for r in faults))
        for stored in faults[BUGGY]
    ]
    return markdown_table(("stored", "a copy of all ids", *(f"page faults, {release}" for release in faults)), rows)


def upstream_list(records: Records) -> str:
    """How much done flags, the cache and the later releases help, and which releases respect `end_key`."""
    lines = []
    for name, label in (("done_ratio", "done flags instead of ids"), ("cache_ratio", "the cache")):
        record = records.get(f"slice_sampler.{name}", release=BUGGY)
        stored = record.setting["stored"]
        lines.append(f"- {label}: {_text(record)} as fast with {stored:,} transitions stored (torchrl {BUGGY})")
    for record in records.all("slice_sampler.release_ratio"):
        low, high = (format_value(value, "ratio") for value in record.spread)
        lines.append(
            f"- torchrl {BUGGY} takes {_text(record)} ({low} to {high}) the time of {record.setting['release']}, with "
            f"{record.setting['stored']:,} transitions stored"
        )
    for record in records.all("slice_sampler.heeds_end_key"):
        yes_or_no = _text(record)
        lines.append(
            f"- torchrl {record.setting['release']} respects `end_key` if there is an entry `episode`: {yes_or_no}"
        )
    return "\n".join(lines)


def cost_table(records: Records) -> str:
    """The cost of one sample with the most transitions stored."""
    stored, rows = max(records.series("slice_sampler.online", "stored", release=NEWEST)), []
    for (release, sampler), (_, _, label) in LINES.items():
        setting = {"release": release, "sampler": sampler, "stored": stored}
        measured = [
            records.where("slice_sampler.sample", storage="cpu", **setting),
            records.where("slice_sampler.online", **setting),
        ]
        rows.append((label, *(_text(matches[-1]) if matches else "" for matches in measured)))
    table = markdown_table(("", "find and fetch, nothing written", "find only, after a write"), rows)
    return f"One sample of 256 slices, with {stored:,} transitions stored:\n\n{table}"


def fix_list(records: Records) -> str:
    """How much IncrementalSliceSampler helps, and how much memory its index takes."""

    def get(name, **setting):
        return records.get(f"slice_sampler.{name}", **setting)

    still, floor, cached = get("ours_ratio"), get("floor_ratio"), get("cached_ratio")
    growth, index = get("online_growth"), get("index_bytes")
    max_stored, min_stored = growth.setting["stored"], growth.setting["over"]
    online_default, online_cached = (
        get("online_ours_ratio", stored=max_stored, sampler=sampler) for sampler in ("episode", "episode cached")
    )
    with_min, with_max = (get("online_alone", stored=stored, sampler="ours") for stored in (min_stored, max_stored))
    return f"""\
- With {still.setting["stored"]:,} transitions that do not change, {NEWEST} takes **{_text(still)}** the time of our
  sampler; with its cache and {cached.setting["stored"]:,} transitions, {_text(cached)}.
- After each write, with {max_stored:,} stored, it takes {_text(online_default)} the time of ours, and with its cache
  **{_text(online_cached)}**.
- Alone on its buffer, ours finds its slices after a write in {_text(with_min)} with {min_stored:,} stored and in
  {_text(with_max)} with {max_stored:,}. (In the table it took turns with samplers that read everything, which slows it
  down.)
- Fetching the transitions alone is the floor, and ours takes {_text(floor)} as long.
- The index holds {_text(index)} per episode.
{_without_replacement(records)}"""


def _without_replacement(records: Records) -> str:
    """The line about samplers without replacement, or "" for older records, which lack them."""
    names = ("without replacement", "ours without replacement")
    times = [records.where("slice_sampler.online_alone", sampler=name) for name in names]
    if not all(times):
        return ""
    theirs, ours = (measured[-1] for measured in times)
    ratio = records.get("slice_sampler.online_ours_ratio", sampler=names[0])
    return (
        f"- Without replacement, after each write, with {ours.setting['stored']:,} stored and each sampler on its own, "
        f"{NEWEST} takes {_text(theirs)}, **{_text(ratio)}** the time of ours, {_text(ours)}."
    )


def _text(record: Record) -> str:
    return format_value(record.value, record.unit)
