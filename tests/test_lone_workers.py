"""If only one process is started, or computes at a time, it needs no limit of threads."""

import pytest

from rlrepro.doctor.scan import examine

SETTINGS = """
import argparse
import multiprocessing
import torch

settings = {"workers": 1, "actors": 8}
others = {"workers": 8}
parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=1)
parser.add_argument("-n", "--jobs", type=int, default=1)
parser.add_argument("-p", "--players", type=int, default=6)
args = parser.parse_args()
lock = multiprocessing.Lock()
network = torch.nn.Linear(3, 1024)
"""
START = """
def work(rank):
    network(torch.ones(64, 3)).sum().backward()

for rank in range({}):
    multiprocessing.Process(target=work, args=(rank,)).start()
"""
WORK = """
def work(rank):
    {}

for rank in range(4):
    multiprocessing.Process(target=work, args=(rank,)).start()
"""
LOCK = "lock.acquire()\n        lock.release()"
STEP = "network(torch.ones(64, 3)).sum().backward()"


@pytest.mark.parametrize(
    "number, confidence",
    [
        ("args.num_workers", None),
        ("0, args.num_workers", None),
        ("self.args.num_workers", None),
        ("settings['workers']", None),
        ("1, args.num_workers", "high"),
        ("args.players", "high"),
        ("args.jobs", None),
        ("settings['actors']", "high"),
        ("others['workers']", "high"),
        ("4", "high"),
    ],
)
def test_a_number_that_is_one_by_default(tmp_path, number, confidence):
    (tmp_path / "train.py").write_text(SETTINGS + START.format(number))
    assert confidence_in(tmp_path) == confidence


@pytest.mark.parametrize(
    "name, text, confidence",
    [
        ("README.md", "python train.py --num-workers 8", "high"),
        ("README.md", "python train.py --num-workers 1", None),
        ("run.sbatch", "python train.py --num-workers=12", "high"),
        ("run.sh", "head -n 5 README.md", None),
        ("run.sh", "python train.py --num-workers 5", "high"),
        ("sbatch.script", "export OMP_NUM_THREADS=1\npython train.py --num-workers=12", None),
    ],
)
def test_arguments_in_the_texts_of_a_project(tmp_path, name, text, confidence):
    (tmp_path / "train.py").write_text(SETTINGS + START.format("args.num_workers"))
    (tmp_path / name).write_text(text)
    assert confidence_in(tmp_path) == confidence


@pytest.mark.parametrize(
    "work, confidence",
    [
        (f"while rank:\n        {LOCK}\n    lock.acquire()\n    {STEP}\n    lock.release()", "low"),
        (f"if rank == 0:\n        {STEP}", None),
        (f"if rank == 0:\n        print(rank)\n    else:\n        {STEP}", "high"),
        (f"if rank > 0:\n        {STEP}", "high"),
        (f"with lock:\n        {STEP}", "low"),
        (f"lock.acquire()\n    {STEP}\n    lock.release()", "low"),
        (f"lock.acquire()\n    print(rank)\n    lock.release()\n    {STEP}", "high"),
        (f"{STEP}\n    with lock:\n        print(rank)", "high"),
    ],
)
def test_work_of_one_process_at_a_time(tmp_path, work, confidence):
    (tmp_path / "train.py").write_text(SETTINGS + WORK.format(work))
    assert confidence_in(tmp_path) == confidence


@pytest.mark.parametrize(
    "network, confidence",
    [
        ("torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Linear(16, 2))", "low"),
        ("torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Linear(64, 2))", "high"),
        ("torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.LSTM(64, 64))", "high"),
        ("torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Linear(args.width, args.width))", "high"),
        ("torch.nn.Sequential(torch.nn.Linear(3, args.width), torch.nn.Linear(args.width, 2))", "high"),
        ("torch.nn.Sequential(torch.nn.Linear(args.states, 16), torch.nn.Linear(16, args.actions))", "low"),
    ],
)
def test_networks_that_torch_computes_in_one_thread_anyway(tmp_path, network, confidence):
    text = SETTINGS.replace("torch.nn.Linear(3, 1024)", network)
    (tmp_path / "train.py").write_text(text + START.format("4"))
    assert confidence_in(tmp_path) == confidence


@pytest.mark.parametrize(
    "start, confidence",
    [
        ("[multiprocessing.Process(target=work, args=(0,)) for _ in range(1)]", None),
        ("[multiprocessing.Process(target=work, args=(0,)) for _ in range(2)]", "high"),
        ("[multiprocessing.Process(target=work, args=(0,)) for _ in range(1) for _ in range(2)]", "high"),
        ("ProcessPoolExecutor(max_workers=1).submit(work, 0)", "low"),
        ("ProcessPoolExecutor(max_workers=2).submit(work, 0)", "high"),
        ("torch.multiprocessing.spawn(work, nprocs=1)", "low"),
        ("torch.multiprocessing.spawn(work, nprocs=2)", "high"),
    ],
)
def test_other_ways_to_start_one(tmp_path, start, confidence):
    work = START.split("\nfor")[0]
    (tmp_path / "train.py").write_text(
        f"from concurrent.futures import ProcessPoolExecutor\n{SETTINGS}{work}\n{start}\n"
    )
    assert confidence_in(tmp_path) == confidence


def confidence_in(folder):
    confidences = [finding.confidence for finding in examine([folder]).findings if finding.code == "PT001"]
    return confidences[0] if confidences else None
