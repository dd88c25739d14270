"""Summaries of a sweep: a table with a row for each run, and a curve for each config."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real

import numpy as np

from .digest import digest
from .failures import reason

LAST = 100  # episodes in a mean
POINTS = 200  # in a curve


def table(outcomes: Iterable):
    """A row for each Outcome of `train_many` or `sweep`: its config, its seed and seconds, what error ended it,
    and numbers from what it returned. A number is listed as "value", the numbers of a mapping under their names, and a
    `Trained` of `sweep` as its number of "episodes" and the mean "return" of the last 100. A returned name that is
    already in use gets the suffix "_returned", and "seconds" or "error" the suffix "_of_run" if the config has that
    name. Returns a pandas.DataFrame or, if pandas is not installed, a list of dicts."""
    rows = []
    for outcome in outcomes:
        error = outcome.error and reason(outcome.error)
        config = {"seed": outcome.seed, **outcome.config}
        status = {"seconds": outcome.seconds, "error": error}
        status = {f"{name}_of_run" if name in config else name: value for name, value in status.items()}
        numbers = {
            f"{name}_returned" if name in config or name in status else name: number
            for name, number in _numbers(outcome.value).items()
        }
        rows.append((dict(outcome.config) | config, numbers, status))
    names = dict.fromkeys(name for column in zip(*rows, strict=True) for cells in column for name in cells)
    rows = [{name: (status | numbers | config).get(name) for name in names} for config, numbers, status in rows]
    try:
        from pandas import DataFrame
    except ImportError:
        return rows
    return DataFrame(rows, columns=list(names))


def plot(outcomes: Iterable, curve: Callable | None = None, ax=None):
    """Draw a curve for each config: the mean over its seeds, with a band from the lowest to the highest. Returns
    Matplotlib's axes, which are labeled unless `curve` is given.

    Args:
        outcomes: of `train_many` or `sweep`; those that failed are left out
        curve: a function from what a run returned to its x and y. By default, for results of `sweep` and
            mappings with "timesteps" and "returns", the mean return of the last episodes against timesteps; for a
            sequence of numbers, these against their index
        ax: axes to draw on; those of a new figure of pyplot if None

    Raises ValueError if no run has succeeded, or if one returned something that has no curve.
    """
    groups, outcomes = {}, [outcome for outcome in outcomes if outcome.error is None]
    if not outcomes:
        raise ValueError("there is nothing to plot: no run has succeeded; see each outcome's error")
    configs = [{name: value for name, value in outcome.config.items() if name != "seed"} for outcome in outcomes]
    differing = [
        name for name in dict.fromkeys(n for c in configs for n in c) if len({_identity(c, name) for c in configs}) > 1
    ]
    for config, outcome in zip(configs, outcomes, strict=True):
        label = ", ".join(f"{name}={config.get(name)}" for name in differing)
        x, y = (curve or _curve)(outcome.value)
        if len(x):
            key = tuple(_identity(config, name) for name in differing)
            groups.setdefault(key, (label, []))[1].append((np.asarray(x, float), np.asarray(y, float)))
    ax = _new_axes() if ax is None else ax
    for label, curves in groups.values():
        first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)  # the range that all seeds cover
        shared = np.linspace(first, max(first, last), POINTS)
        values = np.stack([np.interp(shared, x, y) for x, y in curves])
        (line,) = ax.plot(shared, values.mean(0), label=label or None)
        ax.fill_between(shared, values.min(0), values.max(0), color=line.get_color(), alpha=0.2, linewidth=0)
    if curve is None and all(_has_episodes(outcome.value) for outcome in outcomes):
        ax.set(xlabel="timesteps", ylabel=f"mean return of {LAST} episodes")
    elif curve is None:
        ax.set(xlabel="step", ylabel="value")
    if differing and groups:
        ax.legend()
    return ax


def _identity(config, name: str) -> str | None:
    """A text that is the same for equal values; None if the config has none."""
    if name not in config:
        return None
    value = config[name].item() if isinstance(config[name], np.generic) else config[name]
    try:
        return digest(value)
    except Exception:  # it can't be pickled
        return repr(value)


def _new_axes():
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plot needs Matplotlib: pip install matplotlib", name=error.name) from error
    return plt.subplots(layout="constrained")[1]


def _numbers(value) -> dict:
    if isinstance(value, Real):
        return {"value": value}
    if isinstance(value, Mapping):
        return {str(name): number for name, number in value.items() if isinstance(number, Real)}
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


def _has_episodes(value) -> bool:
    return isinstance(value, Mapping) or getattr(value, "episodes", None) is not None


def _points(value):
    if not _has_episodes(value):
        y = np.asarray(value, float)
        return np.arange(len(y)), y
    episodes = getattr(value, "episodes", None)
    x, y = (value[n] if episodes is None else getattr(episodes, n) for n in ("timesteps", "returns"))
    counts = np.minimum(np.arange(1, len(y) + 1), LAST)
    sums = np.convolve(y, np.ones(LAST))[: len(y)] if len(y) else counts  # a NaN affects only the means that include it
    return x, sums / counts
