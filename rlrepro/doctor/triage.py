"""Find the documented problem that a traceback or description fits; the site's front page does so in JavaScript."""

import re
from functools import cache
from pathlib import Path

from rlrepro.metadata import address, tomllib

DATA = Path(__file__).with_name("triage.toml")
AT_MOST = 3  # problems that one text may fit
NOT_OURS = (
    "This text fits no documented problem. If you left lines out, add them, especially frames of the library. "
    "A process that was killed (exit status 137) probably ran out of host memory: name the library, and what grew. "
    "Otherwise run `rlrepro doctor .` on the project; `rlrepro fit` shows what fits into GPU memory."
)


@cache
def load() -> dict:
    """The data: `traceback`, `concepts` and `problem`, as the comment in triage.toml explains."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def triage(text: str) -> list[dict]:
    """The problems that the text fits, the most likely one first, each a dict as in triage.toml; at most AT_MOST."""
    data = load()
    text = " ".join(text.replace("\\", "/").split())
    kinds = ("errors",) if _matches(data["traceback"], text) else ("errors", "words")
    scores = [
        (max((_score(sign, text) for kind in kinds for sign in problem[kind]), default=0), problem)
        for problem in data["problem"]
    ]
    return [problem for score, problem in sorted(scores, key=lambda pair: -pair[0]) if score][:AT_MOST]


def _score(sign: list[str], text: str) -> int:
    """How specific a sign is, if all of its expressions match: 2 for an expression of its own, 1 for a concept."""
    if all(_matches(expression, text) for expression in sign):
        return sum(1 if expression.startswith("@") else 2 for expression in sign)
    return 0


def _matches(expression: str, text: str) -> bool:
    pattern = re.sub(r"@(\w+)", lambda match: f"(?:{load()['concepts'][match[1]]})", expression)
    return re.search(pattern, text, re.IGNORECASE) is not None


def describe(text: str) -> tuple[str, bool]:
    """What `rlrepro triage` prints about a text, and whether it fits any problem."""
    cards = [
        "\n".join(
            [
                f"{problem['title']} ({problem['releases']})",
                f"  {problem['change']}",
                *(f"    {line}" for line in problem["code"].splitlines()),
                *(f"  rlrepro doctor --explain {rule}" for rule in problem["rules"][:1]),
                f"  {address()}/blob/main/notebooks/{problem['chapter']}.ipynb",
            ]
        )
        for problem in triage(text)
    ]
    return "\n\n".join(cards) or NOT_OURS, bool(cards)
