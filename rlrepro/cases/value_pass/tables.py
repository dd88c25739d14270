"""Sentences and lists of the chapter, in Markdown, each from records."""

from rlrepro.cases.value_pass import WAYS
from rlrepro.cases.value_pass.availability import needs_rllib
from rlrepro.cases.value_pass.claims import modules_rows
from rlrepro.cases.value_pass.plots import NAMES
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value


@needs_rllib
def largest_batch(records: Records) -> str:
    """The peaks of the largest train batch, and their ratio."""
    rows = max(records.series("value_pass.peak", "rows", way="released", modules=1))
    setting = {"rows": rows, "modules": 1}
    theirs, ours = (records.get("value_pass.peak", way=way, **setting) for way in ("released", "chunked"))
    batch = records.get("value_pass.batch", rows=rows, network="nature").value
    return (
        f"At {rows:,} timesteps, RLlib's value pass needs {format_value(theirs.value, 'B')} and ours "
        f"{format_value(ours.value, 'B')}: a factor of **{theirs.value / ours.value:.0f}**, with "
        f"{rows / theirs.setting['minibatch']:.0f} minibatches in the train batch. The train batch itself takes "
        f"{format_value(batch, 'B')}, which has to be on the GPU in either case."
    )


@needs_rllib
def modules_list(records: Records) -> str:
    """Peaks by the number of networks."""
    rows, lines = modules_rows(records), []
    for modules in records.series("value_pass.peak", "modules", rows=rows):
        peaks = {way: records.get("value_pass.peak", way=way, rows=rows, modules=modules).value for way in WAYS}
        values = ", ".join(f"{NAMES[way]} {format_value(peak, 'B')}" for way, peak in peaks.items())
        lines.append(f"- {modules} polic{'y' if modules == 1 else 'ies'} of {rows:,} timesteps each: {values}")
    return "\n".join(lines)


@needs_rllib
def differences_list(records: Records) -> str:
    """How far our results are from RLlib's, by chunk size."""
    lines = []
    for record in records.all("value_pass.difference"):
        size = record.setting["size"]
        chunks = "all at once" if size is None else f"chunks of {size}"
        lines.append(f"- {record.setting['what']}, {chunks}: {format_value(record.value, 'difference')}")
    return "\n".join(lines)
