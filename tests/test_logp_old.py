"""The problem on the real releases. Each effect is also looked for where it must not be: in the cured code."""

import numpy as np
import pytest

from rlrepro.cases.common.gail_icm import TWINS, measure_twin
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST, measure, plots
from rlrepro.evidence import RecordBook, read_records
from rlrepro.evidence.growth import growth_exponent
from rlrepro.lab import Release

from .conftest import open_releases

ROWS = (1024, 2048, 4096, 8192)


@pytest.fixture(scope="module")
def releases():
    with open_releases(BUGGY, FIXED, NEWEST) as found:
        yield found


@pytest.fixture(scope="module")
def peaks(releases):
    """Peak bytes of preprocessing by release and rows, max_batchsize=64, network nature."""
    found = {}
    for version, release in releases.items():
        release.run(measure.prepare, max(ROWS))
        found[version] = {rows: release.run(measure.peak, rows, 64)["peak_bytes"] for rows in ROWS}
    return found


def test_the_buggy_release_grows_with_the_rollout_and_the_fixed_ones_do_not(peaks):
    exponent = {version: growth_exponent(found, found.values()) for version, found in peaks.items()}
    assert 0.95 <= exponent[BUGGY] <= 1.05
    assert exponent[FIXED] <= 0.02 and exponent[NEWEST] <= 0.02


def test_the_fixed_release_needs_a_fiftieth_at_4096_rows(peaks):
    assert peaks[BUGGY][4096] >= 50 * peaks[FIXED][4096]


def test_a_measurement_is_the_same_when_repeated(releases, peaks):
    assert releases[BUGGY].run(measure.peak, 1024, 64)["peak_bytes"] == peaks[BUGGY][1024]


def test_max_batchsize_sets_the_peak_of_the_fixed_release_only(releases):
    small, large = ({v: releases[v].run(measure.peak, 512, size)["peak_bytes"] for v in releases} for size in (16, 256))
    assert small[BUGGY] == large[BUGGY]
    assert large[FIXED] > 8 * small[FIXED] and large[NEWEST] > 8 * small[NEWEST]


def test_a_card_that_stops_the_buggy_release_takes_the_fixed_one(releases):
    dies, fits = (releases[version].run(measure.fits, 2048, 0.25, 64) for version in (BUGGY, FIXED))
    assert not dies["fits"] and "256.0 MiB allowed" in dies["error"]
    assert fits["fits"] and fits["error"] is None


def test_the_search_finds_the_largest_rollout(releases):
    largest = releases[BUGGY].run(measure.largest_rollout, 0.1, 200, 800, 50, 64)
    assert releases[BUGGY].run(measure.fits, largest, 0.1, 64)["fits"]
    assert not releases[BUGGY].run(measure.fits, largest + 50, 0.1, 64)["fits"]
    assert releases[FIXED].run(measure.largest_rollout, 0.1, 200, 800, 50, 64) is None
    with pytest.raises(ValueError, match="start lower"):
        releases[BUGGY].run(measure.largest_rollout, 0.01, 200, 800, 50, 64)


def test_results_are_equal_up_to_rounding(releases):
    for size in (64, 7):
        whole, chunked = (releases[version].run(measure.logp_old, 500, size, "float32") for version in (BUGGY, FIXED))
        np.testing.assert_allclose(chunked, whole, rtol=1e-5)


def test_the_articles_lines_raise_where_the_attribute_is_gone(releases):
    assert "no attribute '_batch'" in releases[BUGGY].run(measure.run_snippet)
    with Release("tianshou==0.5.1") as older:
        assert older.run(measure.run_snippet) is None


def test_chunks_have_up_to_twice_the_size_less_one(releases):
    assert releases[FIXED].run(measure.chunk_sizes, 511, 256) == [511]
    assert releases[FIXED].run(measure.chunk_sizes, 512, 256) == [256, 256]


@pytest.mark.parametrize("actions", [1, 3])
def test_flatten_breaks_the_ratio_of_a_plain_distribution_and_the_cure_does_not(releases, actions):
    wrong = releases[NEWEST].run(measure.first_ratio, "plain normal", actions)
    assert (wrong["off_by"] or 0) > 1 if actions == 1 else "must match" in wrong["error"]
    for right in (
        releases[BUGGY].run(measure.first_ratio, "plain normal", actions),
        releases[NEWEST].run(measure.first_ratio, "independent", actions),
        releases[NEWEST].run(measure.first_ratio, "categorical"),
        releases[NEWEST].run(measure.first_ratio, "plain normal", actions, cured=True),
    ):
        assert right["off_by"] == 0


@pytest.mark.parametrize("version", ["0.5.1", BUGGY])
def test_who_cannot_upgrade_has_a_cure(version):
    with Release(f"tianshou=={version}") as release:
        dies, fits = (release.run(measure.fits, 1024, 0.15, 64, cured=cured) for cured in (False, True))
    assert not dies["fits"] and any("process_fn" in line or "log_prob" in line for line in dies["trace"])
    assert fits["fits"]


def rows_seen(cured):
    """The most rows that each network of PPO and GAIL sees in preprocessing 127 rows with max_batchsize=64, and the
    results, with advantages that are computed again."""
    from rlrepro.cases.common.gail_icm import gail
    from rlrepro.cases.common.tianshou_ppo import preprocess
    from rlrepro.cases.common.tianshou_vectors import vector_ppo, vector_rollout
    from rlrepro.fixes import ChunkedPPO

    algorithms = {
        "PPO": (vector_ppo("plain normal", 3, 64, cls=ChunkedPPO if cured else None, recompute_advantage=True), 3),
        "GAIL": (gail(cured, 127, 64, seed=0, device="cpu"), 8),
    }
    found = {}
    for name, (algorithm, actions) in algorithms.items():
        sizes = []
        for network in (algorithm.critic, algorithm.policy.actor, getattr(algorithm, "disc_net", algorithm.critic)):
            network.register_forward_pre_hook(lambda _, inputs, sizes=sizes: sizes.append(len(inputs[0])))
        batch = preprocess(algorithm, *vector_rollout(127, actions))
        found[name] = {"most": max(sizes), "returns": batch.returns.numpy(), "logp_shape": tuple(batch.logp_old.shape)}
        algorithm._update_with_batch(batch, 64, 2) if cured else None  # the second round computes advantages again
    return found


def test_cured_algorithms_keep_to_max_batchsize_and_to_the_results(releases):
    released, cured = (releases[NEWEST].run(rows_seen, with_cure) for with_cure in (False, True))
    for name in ("PPO", "GAIL"):
        assert released[name]["most"] == 127 and cured[name]["most"] == 64
        np.testing.assert_allclose(cured[name]["returns"], released[name]["returns"], atol=1e-6)
    assert cured["PPO"]["logp_shape"] == (127, 3) and cured["GAIL"]["logp_shape"] == (127,)


def curiosity_in_eval_mode():
    """Preprocess in eval mode and update in training mode, as tianshou does, with dropout in the feature network."""
    from tianshou.utils.torch_utils import policy_within_training_step
    from torch import nn

    from rlrepro.cases.common.gail_icm import icm
    from rlrepro.cases.common.tianshou_vectors import vector_rollout

    algorithm = icm(True, 128, 32, seed=0, device="cpu")
    algorithm.model.feature_net.insert(1, nn.Dropout(0.5))
    algorithm.eval()
    with policy_within_training_step(algorithm.policy):
        return float(algorithm.update(vector_rollout(128)[1], batch_size=32, repeat=1).icm_loss)


def test_curiosity_can_be_preprocessed_in_eval_mode(releases):
    assert releases[NEWEST].run(curiosity_in_eval_mode) > 0


def test_a_cure_for_another_release_says_which_it_is_for(releases):
    def take(name):
        import rlrepro.fixes

        return getattr(rlrepro.fixes, name)

    with pytest.raises(ImportError, match=r"2\.x.*ChunkedPPOPolicy"):
        releases[BUGGY].run(take, "ChunkedPPO")
    with pytest.raises(ImportError, match=r"before 2\.0"):
        releases[NEWEST].run(take, "ChunkedPPOPolicy")


@pytest.mark.parametrize("twin", TWINS)
def test_twins_are_bounded_when_cured_and_give_the_same(releases, twin):
    released, cured = (releases[NEWEST].run(measure_twin, twin, with_cure, 4096, 64) for with_cure in (False, True))
    assert released["preprocess_peak_bytes"] >= 20 * cured["preprocess_peak_bytes"]
    assert released["update_peak_bytes"] >= 9 * cured["update_peak_bytes"]
    np.testing.assert_allclose(cured["rewards"], released["rewards"], atol=1e-6)
    np.testing.assert_allclose(cured["weights"], released["weights"], atol=1e-6)
    assert released["moved"] > 1e-3  # a comparison of weights that had not moved would say nothing


def test_a_twin_that_is_released_is_not_bounded(releases):
    """The bound above fails where the cure is taken away: memory then grows with the rollout."""
    for twin in TWINS:
        small, large = (
            releases[NEWEST].run(measure_twin, twin, False, rows, 64)["preprocess_peak_bytes"] for rows in (512, 2048)
        )
        assert large > 3.5 * small


def test_the_line_that_fills_the_card_is_named(releases):
    died, done = (releases[version].run(measure.history, 1024, 0.2, 64) for version in (BUGGY, FIXED))
    assert "allowed" in died["error"] and done["error"] is None
    at_the_end = {line: live[-1] for line, live in died["live"].items()}
    line = max(at_the_end, key=at_the_end.get)
    assert line.startswith("ppo.py:") and "logp_old" in line
    assert at_the_end[line] > 0.5 * 0.2 * 2**30 > 3 * max(sum(done["live"].values()))


def test_a_history_is_drawn_from_records_alone(releases, tmp_path):
    book = RecordBook(tmp_path / "02.jsonl", case="logp_old", profile="smoke", device="cpu", seed=0)
    size = {"rows": 512, "gib": 0.1, "max_batchsize": 64}
    for version in (BUGGY, FIXED):
        found = releases[version].run(measure.history, **size)
        assert {len(live) for live in found["live"].values()} == {min(found["events"], measure.HISTORY_POINTS)}
        setting = {"release": version, "events": found["events"], "fits": found["error"] is None, **size}
        for line, live in found["live"].items():
            book.add("live", live.tolist(), "B in turn", line=line, **setting)
    told = plots.plot_history(read_records(tmp_path)).alt()
    for part in ("out of memory", "done", "batch.logp_old = self(batch)", "logp_old.append(self(minibatch)"):
        assert part in told


def test_precisions_are_compared_that_a_device_has():
    assert measure.precisions("cpu") == ["float32", "bfloat16"]
    assert measure.precisions("cuda:0") == ["float32", "tf32", "bfloat16"]
