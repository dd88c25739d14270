"""What the article says about the two batch sizes, and how measurements judge it."""

from rlrepro.cases.two_batch_sizes import ARTICLE_GIB, BUGGY, CHAPTER, NEWEST
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import MissingRecord, Records

PARAMETERS = ("max_batchsize", "batch_size")
ABOUT_8 = (6, 11)  # sizes that count as "about 8"


def _largest_forward(records: Records, release: str, network: str, gradients: bool) -> dict[tuple, int]:
    """The largest forward pass, by (max_batchsize, batch_size)."""
    largest = records.all("two_batch_sizes.largest_forward", release=release, network=network, gradients=gradients)
    return {tuple(record.setting[name] for name in PARAMETERS): record.value for record in largest}


def _depends_on(sizes: dict[tuple, int], which: int) -> bool:
    """Whether the largest forward pass changes with that parameter while the other one stays the same."""
    by_other = {}
    for pair, size in sizes.items():
        by_other.setdefault(pair[1 - which], set()).add(size)
    return any(len(values) > 1 for values in by_other.values())


def _is_bounded(sizes: dict[tuple, int], which: int) -> bool:
    """Whether every forward pass is smaller than twice that parameter: a joined remainder may nearly double it."""
    return all(size < 2 * pair[which] for pair, size in sizes.items())


def governing_sizes(records: Records, release: str = BUGGY) -> dict[str, str]:
    """Which parameter governs each stage of that release: "max_batchsize", "batch_size" or "neither"."""
    passes = {"returns": ("critic", False), "logp_old": ("actor", False), "learn": ("actor", True)}
    sizes = {stage: _largest_forward(records, release, *which) for stage, which in passes.items()}
    return {
        stage: next((name for which, name in enumerate(PARAMETERS) if _depends_on(sizes[stage], which)), "neither")
        for stage in passes
    }


def judge_max_batchsize(records: Records) -> Verdict:
    return _judge_parameter(records, which=0, network="critic")


def judge_batch_size(records: Records) -> Verdict:
    return _judge_parameter(records, which=1, network="actor")


def _judge_parameter(records, which, network):
    name, passes = PARAMETERS[which], (f"the {network}'s passes without gradients", f"the {network}'s gradient step")
    governed, others = passes[which], passes[1 - which]
    figures, holds = [], []
    for release in (BUGGY, NEWEST):
        without, with_gradients = (_largest_forward(records, release, network, on) for on in (False, True))
        own, other = (without, with_gradients) if which == 0 else (with_gradients, without)
        holds.append(_is_bounded(own, which) and _depends_on(own, which) and not _depends_on(other, which))
        largest = {}
        for pair, size in sorted(own.items()):
            largest[pair[which]] = max(size, largest.get(pair[which], 0))
        figures.append(
            f"{release}: " + " and ".join(f"at most {size:,} for {asked}" for asked, size in sorted(largest.items()))
        )
    figure = f"{'; '.join(figures)}, in {governed}"
    if all(holds):
        return Verdict(
            "supported", figure, f"it follows {name} and stays below twice its value; the other passes don't"
        )
    return Verdict("refuted", figure, f"{name} does not bound {governed}, or it also changes {others}")


def judge_no_way_out(records: Records) -> Verdict:
    cells = {release: records.all("two_batch_sizes.fits", release=release) for release in (BUGGY, NEWEST)}
    fits = {release: sum(record.value for record in updates) for release, updates in cells.items()}
    setting = cells[BUGGY][0].setting
    figure = ", ".join(f"{release}: {fits[release]} of {len(updates)} fit" for release, updates in cells.items())
    where = f"{setting['network']} network, {setting['rows']:,} transitions, {setting['gib']:g} GiB"
    if not fits[NEWEST]:
        raise MissingRecord("no cell of the grid fits in the fixed release, so the grid decides nothing")
    if fits[BUGGY]:
        return Verdict("refuted", figure, f"some values fit in {BUGGY} ({where})")
    return Verdict("supported", figure, f"none of the values tried helps in {BUGGY} ({where})")


def judge_published(records: Records) -> Verdict:
    updates = records.all("two_batch_sizes.fits", release=NEWEST)
    fits = sum(record.value for record in updates)
    figure = f"{NEWEST}, from the package index: {fits} of {len(updates)} fit"
    if fits:
        return Verdict("refuted", figure, "the newest published package does not have the bug")
    return Verdict("supported", figure, "nothing fits in the newest published package either")


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


def judge_eight(records: Records) -> Verdict:
    largest = records.all("two_batch_sizes.largest_batch", gib=ARTICLE_GIB)
    figure = "; ".join(
        f"{record.setting['network']}: {'at least ' if record.setting['at_least'] else ''}{record.value:,}"
        for record in largest
    )
    about_8 = [record.setting["network"] for record in largest if ABOUT_8[0] <= record.value <= ABOUT_8[1]]
    if len(about_8) == len(largest):
        return Verdict("supported", figure, f"about 8 for each network, on {ARTICLE_GIB} GiB")
    unnamed = f"on {ARTICLE_GIB} GiB; the article does not name its network"
    if about_8:
        return Verdict("partly", figure, f"about 8 only for {', '.join(about_8)} {unnamed}")
    return Verdict("refuted", figure, f"for none of these networks {unnamed}")


CLAIMS = tuple(
    Claim(name, sentence, CHAPTER, section, judge)
    for name, sentence, section, judge in (
        (
            "TB1",
            "`max_batchsize` bounds the forward passes of return computation, not the gradient step",
            "Count the forward passes",
            judge_max_batchsize,
        ),
        (
            "TB2",
            "the trainer's `batch_size` bounds the backward minibatch, and only that",
            "Count the forward passes",
            judge_batch_size,
        ),
        (
            "TB3",
            f"on {BUGGY} no value of either avoids the overflow for a large network",
            "No way out",
            judge_no_way_out,
        ),
        (
            "TB4",
            "one has to install from the repository, since the published package has the bug",
            "No way out",
            judge_published,
        ),
        ("TB5", "the chunks are of the size asked for", "Remainders and invalid sizes", judge_chunks),
        (
            "TB6",
            "with 8 GB and a visual network, backpropagation can take about 8 samples",
            "Which network takes eight samples?",
            judge_eight,
        ),
    )
)
