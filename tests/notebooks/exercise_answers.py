"""Wrong answers to the exercises that come close, and a word that the hint for each must contain."""

import numpy as np
import torch

from rlrepro.course.exercises.parallel_training import SUSPECTS
from rlrepro.evidence.claims import Verdict


def verdict(outcome):
    return Verdict(outcome, "", "")


def longest_only(records):
    old, new = (records.series("logp_old.peak", "rows", release=r, network="nature") for r in ("1.0.0", "1.1.0"))
    return verdict("supported" if new[max(old)] <= old[max(old)] else "refuted")


def best_of_last_chunk(critic, states, actions, size):
    """The best action of the last chunk, with an index that counts from the start of that chunk."""
    for start in range(0, len(actions), size):
        values, rows = critic(states, actions[start : start + size]).max(dim=1)
    return values, rows


def best_from_zero(critic, states, actions, size):
    best, indices = torch.zeros(len(states)), torch.zeros(len(states), dtype=torch.long)
    for start in range(0, len(actions), size):
        values, rows = critic(states, actions[start : start + size]).max(dim=1)
        indices = torch.where(values > best, rows + start, indices)
        best = torch.maximum(values, best)
    return best, indices


def all_pairs(weight, bias, states, actions):
    pairs = torch.cat([states[:, None].expand(-1, len(actions), -1), actions.expand(len(states), -1, -1)], dim=-1)
    return torch.nn.functional.linear(pairs, weight, bias)


FAILED = {"1.1.0 fails in returns": "max_batchsize", "1.1.0 fails in learn": "batch_size"}
UPDATE = """import torch
def update(network, rollout, size, optimizer):
    with torch.no_grad():
        old = OLD
    for start in range(0, len(rollout), size):
        STEP
    return old
"""
STEP = """loss = (network(rollout[start : start + size]) - old[start : start + size] - 1).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()"""
CHUNKED = UPDATE.replace("OLD", "torch.cat([network(rows) for rows in rollout.split(size)])")
WRONG = {  # answers that come close, and a word that the hint for each must contain
    "0.1": [(lambda rows: rows * 4096 * 4, "too small by a factor"), (lambda rows: 2 * 1000 * 4096 * 4, "2,000 rows")],
    "0.2": [(64, "slightly larger"), (140, "above 4 MiB"), ("many", "could not be used")],
    "0.3": [
        (lambda records: verdict("supported"), "'supported'"),
        (lambda records: verdict("refuted" if records.get("start.time_ratio").value > 2 else "supported"), "'refuted'"),
        (lambda records: exec("raise KeyError('no')"), "KeyError"),
    ],
    "1.1": [
        (FAILED, "no answer yet for: 1.0.0"),
        (FAILED | {"1.0.0 fails in logp_old": "max_batchsize"}, "*Count the forward passes* again"),
    ],
    "1.2": [
        (lambda rollout, size: size, "rollout of 100"),
        (lambda rollout, size: 32 + rollout % 32, "largest chunk"),
        (lambda rollout, size: size + rollout % size, "rollout of 20"),
    ],
    "1.3": [(2048, "does not fit"), (16, "so does twice"), (500, "power of two")],
    "1.4": [(1000, "too small by orders"), (300_000_000, "too large")],
    "2.1": [
        (lambda rows, size: rows / size, "shorter than one chunk"),
        (lambda rows, size: rows, "How large"),
        (lambda rows, size: rows / min(rows, size), "remainder"),
    ],
    "2.2": [(lambda records, gib: 10, "too small"), (lambda records, gib: 586, "half as high")],
    "2.3": [
        (lambda dist, actions: dist.log_prob(actions).flatten(), "found shape (15,)"),
        (lambda dist, actions: dist.log_prob(actions).reshape(len(actions), -1).mean(1), "numbers are wrong"),
    ],
    "2.4": [
        (lambda fn, rows, size: fn(rows), "was given [10]"),
        (lambda fn, rows, size: torch.cat([fn(row) for row in rows.split(1)]), "wrong number of calls"),
        (lambda fn, rows, size: torch.cat([fn(rows) for rows in reversed(rows.split(size))]), "in their order"),
    ],
    "3.1": [
        (lambda length, slice_len: length - slice_len + 1, "of 2 transitions"),
        (lambda length, n: length - n, "500 transitions"),
    ],
    "3.2": [(lambda release, stored, size: stored * size, "too small"), (lambda r, n, b: n * (4 * b + 4), "0.14.1")],
    "3.3": [
        (lambda capacity, written, episode: [], "[] is not right"),
        (
            lambda c, w, e: [
                ((n * e + e - 1) % c, min(e, n * e + e - max(0, w - c)))
                for n in range(w // e)
                if n * e + e - 1 > max(0, w - c)
            ],
            "8",
        ),
    ],
    "3.4": [
        (lambda records, seconds: seconds, "too small"),
        (lambda records, seconds: max(records.series("slice_sampler.online", "stored")), "too large"),
    ],
    "4.1": [(lambda cores, runs: cores // runs, None), (lambda cores, runs: 1, "64 cores")],
    "4.2": [({}, "no answer yet"), (dict.fromkeys(SUSPECTS, "lock"), "predicts the opposite")],
    "4.3": [(lambda records: 0.0, "too small"), (lambda records: 1.0, "too large")],
    "4.4": [({"OMP_NUM_THREADS": "2"}, "2 threads"), ({"NOTHING": "1"}, None)],
    "5.1": [(4 * 768, "too small by orders"), (768 * 4 + 2 * 5_000 * 8 * 4 + 2 * 5_000 + 8 * 4, "slightly too small")],
    "5.2": [
        (lambda mask: mask, "found 8 of torch.bool"),
        (lambda mask: mask[-1:].to(torch.uint8).repeat(-(-len(mask) // 8)), "look the same"),
    ],
    "5.3": [
        (lambda weight, bias, states, actions: states, "Expected shape"),
        (all_pairs, "pairs were made"),
        (lambda w, b, s, a: all_pairs(w, b, s, a) + 1, "values are not those"),
    ],
    "5.4": [
        (lambda critic, states, actions, size: critic(states, actions).max(1), "given 100 actions"),
        (best_of_last_chunk, "from the beginning"),
        (best_from_zero, "actions are wrong"),
        (lambda critic, states, actions, size: (states.sum(1), states.sum(1)), "evaluated 0 of"),
    ],
    "6.1": [("logp_old.peak", "not judged by")],
    "6.2": [({"LO5"}, "1 of yours can be judged"), (set(), "0 of yours")],
    "6.3": [
        (lambda records: verdict("supported"), "'supported'"),
        (longest_only, "shortest rollout"),
        (lambda records: verdict("refuted"), "as they were measured"),
        (lambda records: None, "could not be used"),
    ],
    "7.1": [
        (UPDATE.replace("OLD", "network(rollout)").replace("STEP", STEP), "pass had 640 samples"),
        (CHUNKED.replace("STEP", "pass"), "keep the gradient steps"),
        (
            CHUNKED.replace("with torch.no_grad():", "if True:").replace("STEP", STEP.replace("- 1", ".detach() - 1")),
            "carries gradients",
        ),
        (UPDATE.replace("OLD", "torch.zeros(len(rollout), 1)").replace("STEP", STEP), "numbers differ"),
        (UPDATE.replace("OLD", "network(rollout[:size])").replace("STEP", "pass"), "for all samples"),
        ("def learn(): pass", "not define a function `update`"),
        ("def update(:", "could not be used"),
    ],
    "7.2": [
        ("print(1)", "finds nothing"),
        ("import os", "finds nothing"),
        ("def f(:", "can't be parsed"),
        (
            "import torch, multiprocessing\ndef f(k): loss(k).backward()\ntorch.autograd.set_detect_anomaly(True)\n"
            "with multiprocessing.Pool(8) as p: p.map(f, range(8))",
            "PT001, TO002",
        ),
    ],
    "7.3": [
        (CHUNKED.replace("STEP", STEP), "not define a function `prepare`"),
        (UPDATE.replace("OLD", "network(rollout)").replace("STEP", STEP), "RO001"),
        (
            "import torch\ndef prepare(network, rollout):\n    for rows in rollout.split(64):\n"
            "        with torch.no_grad(): network(rows)",
            "64 of 640",
        ),
    ],
    "8.1": [
        (lambda stored: 4 * 84 * 84 * stored, "What else has frames"),
        (lambda stored: 10**6 * stored, "more than the"),
    ],
    "8.2": [
        (lambda steps, collect, capacity, rate: rate * capacity * steps / collect, "does not fill up"),
        (lambda steps, collect, capacity, rate: rate * sum(range(collect, steps + 1, collect)), "The buffer fills up"),
    ],
    "8.3": [
        (lambda arrays, rows: False, "your function returns False"),
        (lambda arrays, rows: any(np.isnan(arrays[key][:]).any() for key in ("rew", "done")), "read others"),
    ],
    "9.1": [(lambda records, steps: steps * 0.02 * 100, "too large"), (lambda records, steps: 1e-6, "too small")],
    "9.2": [(lambda wake_up, allowed: wake_up * allowed, "too small"), (lambda wake_up, allowed: wake_up, None)],
    "9.3": [(lambda cores, runs, polls: cores, "that poll"), (lambda cores, runs, polls: cores - runs, "that sleep")],
    "10.1": [(lambda records, gib: 1.0, "too small"), (lambda records, gib: 1e12, "too large")],
    "10.2": [
        (lambda compute_values, batch, size: compute_values(batch), "was given [10] rows"),
        (lambda compute_values, batch, size: batch["rewards"], "differ from those"),
    ],
    "10.3": [((4096, 32), "too small"), ((2 * 4096, 64), "too large")],
}
