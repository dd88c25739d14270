"""The problem on the real releases. Every test also checks that the effect is absent in the fixed code."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rlrepro.cases.common.gail_icm import ALGORITHMS, measure_update
from rlrepro.cases.logp_old import BUGGY, FIXED, NEWEST, OLDER, plots, workloads
from rlrepro.evidence import RecordBook, read_records
from rlrepro.evidence.estimates import growth_exponent

from .conftest import open_releases

ROWS = (128, 256, 512, 1024)


@pytest.fixture(scope="module")
def releases():
    with open_releases(OLDER, BUGGY, FIXED, NEWEST) as releases, ThreadPoolExecutor() as pool:
        list(pool.map(lambda release: release.run(workloads.prepare, max(ROWS)), releases.values()))
        yield releases


@pytest.fixture(scope="module")
def peaks(releases):
    """Peak bytes of preprocessing by release and rollout, max_batchsize=16, network nature."""
    return {
        version: {rows: releases[version].run(workloads.peak, rows, 16)["peak_bytes"] for rows in ROWS}
        for version in (BUGGY, FIXED, NEWEST)
    }


def test_the_buggy_release_grows_with_the_rollout_and_the_fixed_ones_do_not(peaks):
    exponent = {version: growth_exponent(by_rows, by_rows.values()) for version, by_rows in peaks.items()}
    assert 0.95 <= exponent[BUGGY] <= 1.05
    assert exponent[FIXED] <= 0.02 and exponent[NEWEST] <= 0.02


def test_the_fixed_release_needs_a_fiftieth_for_a_rollout_of_64_chunks(peaks):
    assert peaks[BUGGY][1024] >= 50 * peaks[FIXED][1024]


def test_a_measurement_is_the_same_when_repeated(releases, peaks):
    assert releases[BUGGY].run(workloads.peak, 512, 16)["peak_bytes"] == peaks[BUGGY][512]


def test_max_batchsize_sets_the_peak_of_the_fixed_release_only(releases):
    small, large = (
        {v: releases[v].run(workloads.peak, 256, size)["peak_bytes"] for v in (BUGGY, FIXED, NEWEST)}
        for size in (8, 128)
    )
    assert small[BUGGY] == large[BUGGY]
    assert large[FIXED] > 8 * small[FIXED] and large[NEWEST] > 8 * small[NEWEST]


def test_a_card_that_stops_the_buggy_release_takes_the_fixed_one(releases):
    buggy, fixed = (releases[version].run(workloads.fits, 512, 0.1, 64) for version in (BUGGY, FIXED))
    assert not buggy["fits"] and "102.4 MiB allowed" in buggy["error"]
    assert fixed["fits"] and fixed["error"] is None


def test_the_search_finds_the_largest_rollout(releases):
    largest = releases[BUGGY].run(workloads.largest_rollout, 0.1, 200, 800, 50, 64)
    assert releases[BUGGY].run(workloads.fits, largest, 0.1, 64)["fits"]
    assert not releases[BUGGY].run(workloads.fits, largest + 50, 0.1, 64)["fits"]
    assert releases[FIXED].run(workloads.largest_rollout, 0.1, 200, 800, 50, 64) is None
    with pytest.raises(ValueError, match="start lower"):
        releases[BUGGY].run(workloads.largest_rollout, 0.01, 200, 800, 50, 64)


def test_results_are_equal_up_to_rounding(releases):
    for size in (64, 7):
        at_once, chunked = (
            releases[version].run(workloads.logp_old, 500, size, "float32") for version in (BUGGY, FIXED)
        )
        np.testing.assert_allclose(chunked, at_once, rtol=1e-5)


def test_the_articles_lines_raise_where_the_attribute_is_gone(releases):
    assert "no attribute '_batch'" in releases[BUGGY].run(workloads.run_snippet)
    assert releases[OLDER].run(workloads.run_snippet) is None


def test_chunks_have_up_to_twice_the_size_less_one(releases):
    assert releases[FIXED].run(workloads.chunk_sizes, 511, 256) == [511]
    assert releases[FIXED].run(workloads.chunk_sizes, 512, 256) == [256, 256]


@pytest.mark.parametrize("actions", [1, 3])
def test_flatten_breaks_the_ratio_of_a_plain_distribution_and_the_fix_does_not(releases, actions):
    wrong = releases[NEWEST].run(workloads.first_ratio, "plain normal", actions)
    assert (wrong["off_by"] or 0) > 1 if actions == 1 else "must match" in wrong["error"]
    for correct in (
        releases[BUGGY].run(workloads.first_ratio, "plain normal", actions),
        releases[NEWEST].run(workloads.first_ratio, "independent", actions),
        releases[NEWEST].run(workloads.first_ratio, "categorical"),
        releases[NEWEST].run(workloads.first_ratio, "plain normal", actions, chunked=True),
    ):
        assert correct["off_by"] == 0


@pytest.mark.parametrize("version", [OLDER, BUGGY])
def test_users_who_cannot_upgrade_have_a_fix(releases, version):
    buggy, fixed = (releases[version].run(workloads.fits, 512, 0.1, 64, chunked=chunked) for chunked in (False, True))
    assert not buggy["fits"] and any("process_fn" in line or "log_prob" in line for line in buggy["trace"])
    assert fixed["fits"]


def largest_batches(chunked):
    """The largest number of transitions that a network of PPO and of GAIL gets at once when the algorithm preprocesses
    127 of them with max_batchsize=64, and the results. The second epoch recomputes advantages."""
    from rlrepro.cases.common.gail_icm import gail
    from rlrepro.cases.common.tianshou_ppo import preprocess
    from rlrepro.cases.common.tianshou_vectors import vector_ppo, vector_rollout
    from rlrepro.fixes import ChunkedPPO

    algorithms = {
        "PPO": (vector_ppo("plain normal", 3, 64, cls=ChunkedPPO if chunked else None, recompute_advantage=True), 3),
        "GAIL": (gail(chunked, 127, 64, seed=0, device="cpu"), 8),
    }
    results = {}
    for name, (algorithm, actions) in algorithms.items():
        sizes = []
        for network in (algorithm.critic, algorithm.policy.actor, getattr(algorithm, "disc_net", algorithm.critic)):
            network.register_forward_pre_hook(lambda _, inputs, sizes=sizes: sizes.append(len(inputs[0])))
        batch = preprocess(algorithm, *vector_rollout(127, actions))
        results[name] = {
            "largest": max(sizes),
            "returns": batch.returns.numpy(),
            "logp_shape": tuple(batch.logp_old.shape),
        }
        if chunked:
            algorithm._update_with_batch(batch, 64, 2)
    return results


def test_fixed_algorithms_keep_to_max_batchsize_and_to_the_results(releases):
    released, fixed = (releases[NEWEST].run(largest_batches, chunked) for chunked in (False, True))
    for name in ("PPO", "GAIL"):
        assert released[name]["largest"] == 127 and fixed[name]["largest"] == 64
        np.testing.assert_allclose(fixed[name]["returns"], released[name]["returns"], atol=1e-6)
    assert fixed["PPO"]["logp_shape"] == (127, 3) and fixed["GAIL"]["logp_shape"] == (127,)


def test_a_fix_for_another_release_names_its_release(releases):
    def take(name):
        import rlrepro.fixes

        return getattr(rlrepro.fixes, name)

    with pytest.raises(ImportError, match=r"2\.x.*ChunkedPPOPolicy"):
        releases[BUGGY].run(take, "ChunkedPPO")
    with pytest.raises(ImportError, match=r"before 2\.0"):
        releases[NEWEST].run(take, "ChunkedPPOPolicy")


def test_a_single_weight_is_nudged_by_the_smallest_step(releases):
    plain, repeated, nudged = (
        releases[BUGGY].run(workloads.train, False, 1, 64, nudged=nudged)["weights"] for nudged in (False, False, True)
    )
    assert np.array_equal(plain, repeated) and np.abs(plain[1] - plain[0]).max() > 1e-3
    (changed,) = np.flatnonzero(plain[0] != nudged[0])
    assert nudged[0, changed] == np.nextafter(plain[0, changed], np.float32(np.inf))
    assert np.abs(nudged[1] - plain[1]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_gail_and_icm_are_bounded_when_fixed_and_give_the_same(releases, name):
    released, fixed = (releases[NEWEST].run(measure_update, name, chunked, 4096, 64) for chunked in (False, True))
    assert released["preprocess_peak_bytes"] >= 20 * fixed["preprocess_peak_bytes"]
    assert released["update_peak_bytes"] >= 9 * fixed["update_peak_bytes"]
    np.testing.assert_allclose(fixed["rewards"], released["rewards"], atol=1e-6)
    np.testing.assert_allclose(fixed["weights"], released["weights"], atol=1e-6)
    assert released["moved"] > 1e-3  # without movement, a comparison of weights would be empty


def test_gail_and_icm_are_not_bounded_as_released(releases):
    """The bound above fails without the fix: memory then grows with the rollout."""
    for name in ALGORITHMS:
        small, large = (
            releases[NEWEST].run(measure_update, name, False, rows, 64)["preprocess_peak_bytes"] for rows in (128, 512)
        )
        assert large > 3.5 * small


def test_the_line_that_fills_the_card_is_named(releases):
    buggy, fixed = (releases[version].run(workloads.history, 1024, 0.2, 64) for version in (BUGGY, FIXED))
    assert "allowed" in buggy["error"] and fixed["error"] is None
    final_bytes = {line: live[-1] for line, live in buggy["live"].items()}
    line = max(final_bytes, key=final_bytes.get)
    assert line.startswith("ppo.py:") and "logp_old" in line
    assert final_bytes[line] > 0.5 * 0.2 * 2**30 > 3 * max(sum(fixed["live"].values()))


def test_a_history_is_drawn_from_records_alone(releases, tmp_path):
    book = RecordBook(tmp_path / "02.jsonl", case="logp_old", profile="smoke", device="cpu", seed=0)
    size = {"rows": 256, "gib": 0.05, "max_batchsize": 32}
    for version in (BUGGY, FIXED):
        history = releases[version].run(workloads.history, **size)
        assert {len(live) for live in history["live"].values()} == {min(history["events"], workloads.HISTORY_POINTS)}
        setting = {"release": version, "events": history["events"], "fits": history["error"] is None, **size}
        for line, live in history["live"].items():
            book.add("live", live.tolist(), "B in turn", line=line, **setting)
    text = plots.plot_history(read_records(tmp_path)).alt()
    for part in ("out of memory", "done", "batch.logp_old = self(batch)", "logp_old.append(self(minibatch)"):
        assert part in text


def test_the_precisions_compared_are_those_of_the_device():
    assert workloads.precisions("cpu") == ["float32", "bfloat16"]
    assert workloads.precisions("cuda:0") == ["float32", "tf32", "bfloat16"]
