"""The article's claims about the two batch sizes, and the functions that judge them from measurements."""

from dataclasses import replace
from functools import partial

from rlrepro.cases.two_batch_sizes import ARTICLE_GIB, BUGGY, CHAPTER, NEWEST
from rlrepro.cases.two_batch_sizes.article import ARTICLE
from rlrepro.evidence.claims import Claim, Finding, Premise, Verdict
from rlrepro.evidence.records import MissingRecord, Records
from rlrepro.evidence.rules import Rule, about, at_least, at_most, exactly

PARAMETERS = ("max_batchsize", "batch_size")


def _largest_forward(records: Records, release: str, network: str, gradients: bool) -> dict[tuple, int]:
    """The largest forward pass, by (max_batchsize, batch_size)."""
    largest = records.all("two_batch_sizes.largest_forward", release=release, network=network, gradients=gradients)
    return {tuple(record.setting[name] for name in PARAMETERS): record.value for record in largest}


def _depends_on(sizes: dict[tuple, int], index: int) -> bool:
    """Whether the largest forward pass changes with PARAMETERS[index] while the other parameter stays the same."""
    by_other_parameter = {}
    for pair, size in sizes.items():
        by_other_parameter.setdefault(pair[1 - index], set()).add(size)
    return any(len(values) > 1 for values in by_other_parameter.values())


def _is_bounded(sizes: dict[tuple, int], index: int) -> bool:
    """Whether every forward pass is smaller than twice that parameter: a joined remainder may nearly double it."""
    return all(size < 2 * pair[index] for pair, size in sizes.items())


def governing_sizes(records: Records, release: str = BUGGY) -> dict[str, str]:
    """Which parameter governs each stage of that release: "max_batchsize", "batch_size" or "neither"."""
    passes = {"returns": ("critic", False), "logp_old": ("actor", False), "learn": ("actor", True)}
    sizes = {stage: _largest_forward(records, release, *forward) for stage, forward in passes.items()}
    return {
        stage: next((name for index, name in enumerate(PARAMETERS) if _depends_on(sizes[stage], index)), "neither")
        for stage in passes
    }


def judge_max_batchsize(records: Records) -> Verdict:
    return _judge_parameter(records, index=0, network="critic")


def judge_batch_size(records: Records) -> Verdict:
    return _judge_parameter(records, index=1, network="actor")


def _judge_parameter(records, index, network):
    name, passes = PARAMETERS[index], (f"the {network}'s passes without gradients", f"the {network}'s gradient step")
    governed, ungoverned = passes[index], passes[1 - index]
    figures, governs = [], []
    for release in (BUGGY, NEWEST):
        no_grad, with_grad = (_largest_forward(records, release, network, gradients) for gradients in (False, True))
        bounded, free = (no_grad, with_grad) if index == 0 else (with_grad, no_grad)
        governs.append(_is_bounded(bounded, index) and _depends_on(bounded, index) and not _depends_on(free, index))
        largest = {}
        for pair, size in sorted(bounded.items()):
            largest[pair[index]] = max(size, largest.get(pair[index], 0))
        figures.append(
            f"{release}: "
            + " and ".join(f"at most {size:,} samples with {name}={limit}" for limit, size in sorted(largest.items()))
        )
    figure = f"{'; '.join(figures)}, in {governed}"
    if all(governs):
        return Verdict("supported", figure, f"the size of {governed} follows {name}, that of {ungoverned} does not")
    return Verdict("refuted", figure, f"{name} does not bound {governed}, or it also changes {ungoverned}")


def _shares_that_fit(records: Records) -> tuple[float, float, str]:
    """The shares of the grid's cells that fit in the buggy and in the newest release, and a sentence about them.

    Raises MissingRecord if no cell fits in the newest.
    """
    cells = {release: records.all("two_batch_sizes.fits", release=release) for release in (BUGGY, NEWEST)}
    fit_counts = {release: sum(record.value for record in updates) for release, updates in cells.items()}
    if not fit_counts[NEWEST]:
        raise MissingRecord("no cell of the grid fits in the fixed release, so the grid decides nothing")
    setting = cells[BUGGY][0].setting
    figure = ", ".join(f"{release}: {fit_counts[release]} of {len(updates)} fit" for release, updates in cells.items())
    workload = f"{setting['network']} network, {setting['rows']:,} transitions, {setting['gib']:g} GiB"
    shares = (fit_counts[release] / len(updates) for release, updates in cells.items())
    return *shares, f"{figure} ({workload})"


def judge_overflow(records: Records) -> Finding:
    *shares, figure = _shares_that_fit(records)
    return Finding(figure, [1 - min(shares)])


def judge_no_way_out(records: Records) -> Finding:
    buggy, _, figure = _shares_that_fit(records)
    reasons = {"refuted": f"some values fit in {BUGGY}", "supported": f"none of the values tried helps in {BUGGY}"}
    return Finding(figure, [buggy], reasons)


def judge_published(records: Records) -> Finding:
    buggy, newest, figure = _shares_that_fit(records)
    reasons = {
        "supported": f"true of {BUGGY}, the newest release without the fix; {NEWEST}, also published, has the fix",
        "refuted": f"some sizes fit in the published {BUGGY}",
    }
    return Finding(figure, [buggy / newest], reasons)


def judge_chunks(records: Records) -> Verdict:
    chunks = records.all("two_batch_sizes.largest_chunk")
    larger = [record for record in chunks if record.value > record.setting["max_batchsize"]]
    worst = max(chunks, key=lambda record: record.value / record.setting["max_batchsize"])
    sizes = f"max_batchsize={worst.setting['max_batchsize']} and a rollout of {worst.setting['rows']}"
    figure = f"with {sizes}, the largest chunk has {worst.value}"
    if not larger:
        return Verdict("supported", figure, "no chunk was larger than requested")
    if len(larger) == len(chunks):
        return Verdict("refuted", figure, "every chunk was larger than requested")
    return Verdict(
        "partly", figure, "only if the size divides the rollout; otherwise the remainder is joined to the last chunk"
    )


def judge_eight(records: Records) -> Finding:
    largest = records.all("two_batch_sizes.largest_batch", gib=ARTICLE_GIB)
    figure = "; ".join(
        f"{record.setting['network']}: {'at least ' if record.setting['at_least'] else ''}{record.value:,}"
        for record in largest
    )
    networks = f"of these networks on {ARTICLE_GIB} GiB; the article does not name its own"
    reasons = {"supported": f"for each {networks}", "partly": f"for some {networks}", "refuted": f"for none {networks}"}
    return Finding(figure, [record.value for record in largest], reasons)


OVERFLOW = Premise("the overflow", judge_overflow, at_least(0.01, "a hundredth of the cells"))
BOUNDS = Rule("below twice the parameter counts as bounded, since a joined remainder may nearly double a chunk")

NONE_FITS = replace(at_most(0), says=f"supported if none fits in {BUGGY}, refuted otherwise")

claim = partial(Claim, chapter=CHAPTER, article=ARTICLE)
counted = partial(claim, section="Count the forward passes", rule=BOUNDS)
no_way_out = partial(claim, section="No way out", rule=NONE_FITS, premise=OVERFLOW)

CLAIMS = [
    counted(
        "TB1",
        "`max_batchsize` bounds the forward passes of return computation, not the gradient step",
        judge=judge_max_batchsize,
    ),
    counted(
        "TB2",
        "The trainer's `batch_size` bounds the backward minibatch, and only that",
        judge=judge_batch_size,
    ),
    no_way_out(
        "TB3",
        f"On {BUGGY} no value of either batch size avoids the overflow for a large network",
        judge=judge_no_way_out,
    ),
    no_way_out(
        "TB4",
        "One has to install from the repository, since the published package has the bug",
        judge=judge_published,
    ),
    claim(
        "TB5",
        "The chunks are of the size asked for",
        section="Remainders and invalid sizes",
        judge=judge_chunks,
        rule=exactly("no chunk may be larger"),
    ),
    claim(
        "TB6",
        "With 8 GB and a visual network, backpropagation can take about 8 samples",
        section="For which network do only eight samples fit?",
        judge=judge_eight,
        rule=about(8),
    ),
]
