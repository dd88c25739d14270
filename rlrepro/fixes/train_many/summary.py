"""What a sweep did: a table with a row for each run, and curves by config."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real

import numpy as np

LAST = 100  # episodes that a mean is taken of
POINTS = 200  # of a curve


def table(outcomes: Iterable):
    """A row for each Outcome of `train_many` or `sweep`: its config, its seed and seconds, the last line of its error,
    and what it returned: a number as "value", the numbers of a mapping under their names, and of a `Trained` of
    `sweep`, the number of "episodes" and the mean "return" of the last 100. A returned name that is taken ends in
    "_returned". A pandas.DataFrame, or where pandas is not installed, a list of dicts."""
    rows = []
    for outcome in outcomes:
        error = outcome.error and outcome.error.strip().splitlines()[-1]
        config, after = {"seed": outcome.seed, **outcome.config}, {"seconds": outcome.seconds, "error": error}
        numbers = {
            f"{name}_returned" if name in config or name in after else name: number
            for name, number in _numbers(outcome.value).items()
        }
        rows.append((dict(outcome.config) | config, numbers, after))
    names = dict.fromkeys(name for part in zip(*rows, strict=True) for each in part for name in each)
    rows = [{name: (after | numbers | config).get(name) for name in names} for config, numbers, after in rows]
    try:
        from pandas import DataFrame
    except ImportError:
        return rows
    return DataFrame(rows, columns=list(names))


def plot(outcomes: Iterable, curve: Callable | None = None, ax=None):
    """Draw a curve for each config, over all its seeds: their mean, and from the lowest to the highest. Returns
    Matplotlib's axes.

    Args:
        outcomes: of `train_many` or `sweep`; those that failed are left out
        curve: from what a run returned, its x and y. By default those of `sweep`, the mean return of the last episodes
            by timesteps; or a mapping's "timesteps" and "returns"; or if the value is a sequence of numbers, y alone
        ax: axes to draw on; new ones if None

    Raises ValueError if no run has succeeded, or if one returned something that has no curve.
    """
    groups, outcomes = {}, [outcome for outcome in outcomes if outcome.error is None]
    if not outcomes:
        raise ValueError("there is nothing to plot: no run has succeeded; see each outcome's error")
    if ax is None:
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("plot needs Matplotlib: pip install matplotlib", name=error.name) from error
        ax = Figure(layout="constrained").subplots()
    configs = [{name: value for name, value in each.config.items() if name != "seed"} for each in outcomes]
    differing = [
        name for name in dict.fromkeys(n for c in configs for n in c) if len({repr(c.get(name)) for c in configs}) > 1
    ]
    for config, outcome in zip(configs, outcomes, strict=True):
        label = ", ".join(f"{name}={config.get(name)}" for name in differing)
        x, y = (curve or _curve)(outcome.value)
        if len(x):
            groups.setdefault(label, []).append((np.asarray(x, float), np.asarray(y, float)))
    for label, curves in groups.items():
        first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)  # what all seeds have
        shared = np.linspace(first, max(first, last), POINTS)
        values = np.stack([np.interp(shared, x, y) for x, y in curves])
        (line,) = ax.plot(shared, values.mean(0), label=label or None)
        ax.fill_between(shared, values.min(0), values.max(0), color=line.get_color(), alpha=0.2, linewidth=0)
    if curve is None:
        ax.set(xlabel="timesteps", ylabel=f"mean return of {LAST} episodes")
    if differing and groups:
        ax.legend()
    return ax


def _numbers(value) -> dict:
    if isinstance(value, Real):
        return {"value": value}
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items() if isinstance(each, Real)}
    returns = getattr(getattr(value, "episodes", None), "returns", None)
    if returns is None:
        return {}
    return {"episodes": len(returns), "return": float(np.mean(returns[-LAST:])) if returns else None}


def _curve(value):
    try:
        return _points(value)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            "expected what sweep returns, a list of returns, or a dict with timesteps and returns; found a run that "
            f"returned {value!r}. Pass curve=, a function from this to x and y"
        ) from error


def _points(value):
    episodes = getattr(value, "episodes", None)
    if episodes is None and not isinstance(value, Mapping):
        y = np.asarray(value, float)
        return np.arange(len(y)), y
    x, y = (value[n] if episodes is None else getattr(episodes, n) for n in ("timesteps", "returns"))
    counts = np.minimum(np.arange(1, len(y) + 1), LAST)
    sums = np.convolve(y, np.ones(LAST))[: len(y)] if len(y) else counts  # a NaN is in those that have it, and no other
    return x, sums / counts
