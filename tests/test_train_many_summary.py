"""The table and the curves of a sweep."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot

from rlrepro.fixes import Outcome, plot, table, train_many
from rlrepro.fixes.ensemble_ppo.collector import Episodes
from rlrepro.fixes.sweep import Trained


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def trained(returns):
    return Trained(None, Episodes(list(returns), [10] * len(returns), [10 * (n + 1) for n in range(len(returns))]))


def outcome(value, error=None, **config):
    return Outcome(config, value, error, 1.5, config.get("seed", 7))


SWEEP = [
    outcome(trained([1.0, 3.0]), rate=0.1, seed=0),
    outcome(trained([3.0, 5.0, 7.0]), rate=0.1, seed=1),
    outcome(trained([0.0, 0.0]), rate=0.2, seed=0),
    outcome(None, "Traceback ...\nValueError: no", rate=0.2, seed=1),
]


def test_a_table_has_configs_first_and_then_results():
    frame = table(SWEEP)
    assert list(frame.columns) == ["rate", "seed", "episodes", "return", "seconds", "error"]
    assert frame["return"].tolist()[:3] == [2.0, 5.0, 0.0] and np.isnan(frame["return"][3])
    assert frame["error"].tolist()[3] == "ValueError: no" and frame["episodes"].tolist()[:3] == [2, 3, 2]


def test_a_table_without_pandas_is_a_list(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = table(outcome({"loss": 0.5, "name": "x"}, x=x) for x in (1, 2))
    assert rows == [{"x": x, "loss": 0.5, "seed": 7, "seconds": 1.5, "error": None} for x in (1, 2)]


def test_returned_values_hide_no_other_column():
    (row,) = table([outcome({"error": 0.5, "rate": 0.2}, rate=0.1)]).to_dict("records")
    returned = {"error_returned": 0.5, "rate_returned": 0.2}
    assert row == {"rate": 0.1, "seed": 7, **returned, "seconds": 1.5, "error": None}
    (row,) = table([Outcome({"error": 0.1, "seconds": 5}, None, "ValueError: no", 1.5, 7)]).to_dict("records")
    assert row == {"error": 0.1, "seconds": 5, "seed": 7, "seconds_of_run": 1.5, "error_of_run": "ValueError: no"}


@pytest.mark.slow
def test_numbers_that_runs_return_are_values():
    assert table(train_many(abs_of, [{"x": -3}], n_jobs=1, progress=False))["value"].tolist() == [3]


def abs_of(x):
    return abs(x)


def test_each_config_has_a_curve_over_its_seeds():
    ax = plot(SWEEP)
    first, second = ax.get_lines()
    assert [line.get_label() for line in ax.get_lines()] == ["rate=0.1", "rate=0.2"]
    assert (first.get_xdata()[0], first.get_xdata()[-1]) == (10, 20)  # the range that both seeds have
    assert (first.get_ydata()[0], first.get_ydata()[-1]) == (2.0, 3.0)  # (1 + 3) / 2, then (2 + 4) / 2
    assert not second.get_ydata().any() and len(ax.collections) == 2
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (1.0, 4.0)


def test_curves_of_other_values():
    assert plot([outcome([4.0, 2.0], x=1)]).get_lines()[0].get_ydata()[-1] == 2.0
    ax = plot([outcome({"loss": [1, 2]}, x=1)], curve=lambda value: ([5, 6], value["loss"]))
    assert ax.get_lines()[0].get_xdata()[0] == 5 and ax.get_legend() is None


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def test_only_returns_of_episodes_are_labeled_as_such():
    by_timesteps = {"returns": [1.0, 2.0], "timesteps": [5, 9]}
    for value in (trained([1.0, 2.0]), by_timesteps):
        assert labels(plot([outcome(value)])) == ("timesteps", "mean return of 100 episodes")
    assert labels(plot([outcome([0.7, 0.4])])) == ("step", "value")
    assert labels(plot([outcome(by_timesteps)], curve=lambda value: (value["timesteps"], value["returns"]))) == ("", "")


def test_a_plot_without_axes_is_a_figure_of_pyplot():
    ax = plot(SWEEP)
    assert pyplot.get_fignums() == [ax.figure.number]
    assert plot(SWEEP, ax=ax) is ax and len(pyplot.get_fignums()) == 1
    with pytest.raises(ValueError, match="expected what sweep returns"):
        plot([outcome(3.5)])
    assert len(pyplot.get_fignums()) == 1  # no empty figure


def test_nothing_to_plot_is_an_error():
    with pytest.raises(ValueError, match="no run has succeeded"):
        plot(SWEEP[3:])


def test_a_nan_return_affects_only_the_means_that_include_it():
    returns = [1.0] * 400
    returns[100] = float("nan")
    (line,) = plot([outcome(trained(returns))]).get_lines()
    y = line.get_ydata()
    assert y[0] == y[-1] == 1.0 and 0.2 < np.isnan(y).mean() < 0.3


@pytest.mark.parametrize("value", [3.5, None, {"loss": 1}])
def test_a_value_without_a_curve_is_shown_in_the_error(value):
    with pytest.raises(ValueError, match="expected what sweep returns"):
        plot([outcome(value, rate=1)])


def test_a_plot_without_matplotlib_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        plot(SWEEP)


@pytest.mark.parametrize(
    "values", [({"n": 1}, {"n": "1"}), ({"vf": None}, {}), ({"w": np.arange(2000)}, {"w": np.r_[:1000, 0, 1001:2000]})]
)
def test_configs_that_look_the_same_have_curves_of_their_own(values):
    outcomes = [outcome([1.0, 2.0], **value, seed=seed) for value in values for seed in (0, 1)]
    assert len(plot(outcomes).lines) == 2


def test_numbers_of_numpy_and_python_are_one_config():
    assert len(plot([outcome([1.0, 2.0], x=0.5, seed=0), outcome([3.0, 4.0], x=np.float64(0.5), seed=1)]).lines) == 1
