"""What the article says of the two batch sizes, and how measurements judge it."""

from rlrepro.cases.two_batch_sizes import ARTICLE_GIB, BUGGY, NEWEST
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import MissingRecord, Records

CHAPTER = "01_two_batch_sizes"
PARAMETERS = ("max_batchsize", "batch_size")
ABOUT_8 = (6, 11)  # rows that count as "about 8"


def _largest_forward(records: Records, release: str, network: str, gradients: bool) -> dict[tuple, int]:
    """The largest forward pass, by (max_batchsize, batch_size)."""
    found = records.where("two_batch_sizes.largest_forward", release=release, network=network, gradients=gradients)
    if not found:
        raise MissingRecord(f"no record of two_batch_sizes.largest_forward with release={release}, network={network}")
    return {tuple(record.setting[name] for name in PARAMETERS): record.value for record in found}


def _follows(sizes: dict[tuple, int], which: int) -> bool:
    """Whether the largest forward changes with that parameter while the other stays."""
    others = {}
    for pair, rows in sizes.items():
        others.setdefault(pair[1 - which], set()).add(rows)
    return any(len(rows) > 1 for rows in others.values())


def _is_bound(sizes: dict[tuple, int], which: int) -> bool:
    """Whether no forward reaches twice that parameter, which a joined remainder allows."""
    return all(rows < 2 * pair[which] for pair, rows in sizes.items())


def judge_max_batchsize(records: Records) -> Verdict:
    return _judge_parameter(records, which=0, network="critic")


def judge_batch_size(records: Records) -> Verdict:
    return _judge_parameter(records, which=1, network="actor")


def _judge_parameter(records, which, network):
    governs = (f"the {network}'s passes without gradients", f"the {network}'s gradient step")[which]
    name, others = PARAMETERS[which], ("gradient step does", "passes without gradients do")[which]
    lines, holds = [], []
    for release in (BUGGY, NEWEST):
        without, with_gradients = (_largest_forward(records, release, network, each) for each in (False, True))
        own, other = (without, with_gradients) if which == 0 else (with_gradients, without)
        holds.append(_is_bound(own, which) and _follows(own, which) and not _follows(other, which))
        asked = sorted(
            {pair[which]: max(own[other] for other in own if other[which] == pair[which]) for pair in own}.items()
        )
        seen = " and ".join(f"at most {rows:,} rows for {size}" for size, rows in asked)
        lines.append(f"{release}: {seen}, in {governs}")
    figure = "; ".join(lines)
    if all(holds):
        return Verdict("supported", figure, f"the size follows {name} and stays below twice of it; the {others} not")
    return Verdict("refuted", figure, f"{name} does not bound {governs}, or the {others} follow it too")


def judge_no_way_out(records: Records) -> Verdict:
    cells = {release: records.where("two_batch_sizes.fits", release=release) for release in (BUGGY, NEWEST)}
    for release, found in cells.items():
        if not found:
            raise MissingRecord(f"no record of two_batch_sizes.fits with release={release}")
    fits = {release: sum(record.value for record in found) for release, found in cells.items()}
    setting = cells[BUGGY][0].setting
    figure = ", ".join(f"{release}: {fits[release]} of {len(found)} fit" for release, found in cells.items())
    where = f"{setting['network']} network, {setting['rows']:,} rows, {setting['gib']:g} GiB"
    if not fits[NEWEST]:
        raise MissingRecord("no cell of the grid fits on the fixed release, so that the grid says nothing")
    if fits[BUGGY]:
        return Verdict("refuted", figure, f"some values do fit in {BUGGY} ({where})")
    return Verdict("supported", figure, f"none of the values tried helps in {BUGGY} ({where})")


def judge_published(records: Records) -> Verdict:
    found = records.where("two_batch_sizes.fits", release=NEWEST)
    if not found:
        raise MissingRecord(f"no record of two_batch_sizes.fits with release={NEWEST}")
    figure = f"{NEWEST}, from the package index: {sum(record.value for record in found)} of {len(found)} fit"
    if any(record.value for record in found):
        return Verdict("refuted", figure, "the newest published package does not have the bug")
    return Verdict("supported", figure, "nothing fits in the newest published package either")


def judge_chunks(records: Records) -> Verdict:
    found = records.where("two_batch_sizes.largest_chunk")
    if not found:
        raise MissingRecord("no record of two_batch_sizes.largest_chunk")
    beyond = [record for record in found if record.value > record.setting["max_batchsize"]]
    worst = max(found, key=lambda record: record.value / record.setting["max_batchsize"])
    asked = worst.setting["max_batchsize"]
    figure = f"asked for {asked} rows at a time, of {worst.setting['rows']} came {worst.value} at once"
    if not beyond:
        return Verdict("supported", figure, "no chunk was larger than asked for")
    if len(beyond) == len(found):
        return Verdict("refuted", figure, "every chunk was larger than asked for")
    return Verdict(
        "partly", figure, "only where the size divides the rollout; otherwise the rest is joined to the last chunk"
    )


def judge_eight_rows(records: Records) -> Verdict:
    found = records.where("two_batch_sizes.largest_batch", gib=ARTICLE_GIB)
    if not found:
        raise MissingRecord("no record of two_batch_sizes.largest_batch")
    figure = "; ".join(
        f"{record.setting['network']}: {'at least ' if record.setting['at_least'] else ''}{record.value:,} rows"
        for record in found
    )
    about = [record.setting["network"] for record in found if ABOUT_8[0] <= record.value <= ABOUT_8[1]]
    if len(about) == len(found):
        return Verdict("supported", figure, f"about 8 rows for each network, on {ARTICLE_GIB} GiB")
    if about:
        return Verdict("partly", figure, f"about 8 only for {', '.join(about)}; the article does not name its network")
    return Verdict(
        "refuted", figure, f"for none of these networks on {ARTICLE_GIB} GiB; the article does not name its network"
    )


CLAIMS = tuple(
    Claim(name, sentence, CHAPTER, section, judge)
    for name, sentence, section, judge in (
        (
            "TB1",
            "`max_batchsize` bounds the forward passes of return computation, not the gradient step",
            "Count the forwards",
            judge_max_batchsize,
        ),
        (
            "TB2",
            "the trainer's `batch_size` bounds the backward minibatch, and only that",
            "Count the forwards",
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
        ("TB5", "the chunks are of the size asked for", "Sizes that are not sizes", judge_chunks),
        (
            "TB6",
            "with 8 GB and a visual network, about 8 rows is what backpropagation can take",
            "Which network takes eight rows?",
            judge_eight_rows,
        ),
    )
)
