"""Training runs in processes beside each other."""

TROUBLED = {
    "a pool of training runs": (
        {"PT001"},
        {},
        """
        from multiprocessing import Pool
        from stable_baselines3 import PPO
        def train(seed):
            PPO("MlpPolicy", "CartPole-v1", seed=seed).learn(10_000)
        with Pool(8) as pool:
            pool.map(train, range(8))
        """,
    ),
    "processes in a loop": (
        {"PT001"},
        {},
        """
        import torch
        import multiprocessing as mp
        def train(k):
            loss(k).backward()
        def main():
            workers = [mp.Process(target=train, args=(k,)) for k in range(4)]
            for worker in workers:
                worker.start()
        """,
    ),
    "an executor": (
        {"PT001"},
        {},
        """
        import concurrent.futures
        import torch
        def train(seed):
            loss(seed).backward()
        def main():
            with concurrent.futures.ProcessPoolExecutor(max_workers=4) as executor:
                list(executor.map(train, seeds))
        """,
    ),
    "torch's own processes": (
        {"PT001"},
        {},
        """
        import torch.multiprocessing as mp
        import torch
        def train(rank):
            loss(rank).backward()
        def main():
            mp.spawn(train, nprocs=4)
        """,
    ),
    "a context": (
        {"PT001"},
        {},
        """
        import multiprocessing
        from tianshou.algorithm import PPO
        def train(seed):
            PPO(policy=policy, critic=critic, optim=optim).run_training(params)
        context = multiprocessing.get_context("spawn")
        with context.Pool(4) as pool:
            pool.map(train, seeds)
        """,
    ),
    "a target from a registry": (
        {"PT001"},
        {},
        """
        import torch
        from multiprocessing import Pool
        ALGORITHMS = {}
        class Learner:
            def improve(self):
                self.loss().backward()
        def train_one(seed):
            return ALGORITHMS["a"](seed).run()
        with Pool(4) as pool:
            pool.map(train_one, range(4))
        """,
    ),
    "a subclass of Process": (
        {"PT001"},
        {},
        """
        import torch.multiprocessing as mp
        import torch
        class Worker(mp.Process):
            def __init__(self, k):
                super().__init__()
            def run(self):
                self.loss().backward()
        workers = [Worker(k) for k in range(4)]
        """,
    ),
    "a limit that spawned processes do not inherit": (
        {"PT001"},
        {},
        """
        import torch
        import torch.multiprocessing as mp
        def train(k):
            loss(k).backward()
        if __name__ == "__main__":
            torch.set_num_threads(1)
            mp.set_start_method("spawn")
            workers = [mp.Process(target=train, args=(k,)) for k in range(4)]
        """,
    ),
}

INNOCENT = {
    "a pool with one thread each": (
        {},
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        from multiprocessing import Pool
        with Pool(8) as pool:
            pool.map(train, range(8))
        """,
    ),
    "workers that limit themselves": (
        {},
        """
        import torch
        from multiprocessing import Process
        def train(seed):
            torch.set_num_threads(1)
            learn(seed)
        for seed in range(4):
            Process(target=train, args=(seed,)).start()
        """,
    ),
    "a pool without torch": (
        {},
        "from multiprocessing import Pool\nwith Pool(8) as pool:\n    pool.map(str.upper, words)",
    ),
    "a pool of threads": (
        {},
        """
        import torch
        from multiprocessing.pool import ThreadPool
        from concurrent.futures import ThreadPoolExecutor
        ThreadPool(4).map(load, files)
        ThreadPoolExecutor(4).map(load, files)
        """,
    ),
    "one process": (
        {},
        "import torch\nfrom multiprocessing import Process\nlogger = Process(target=log)\nlogger.start()",
    ),
    "a pool of one": (
        {},
        "import torch\nfrom multiprocessing import Pool\nwith Pool(1) as pool:\n    pool.apply(train)",
    ),
    "one command": ({}, "import subprocess, torch\nsubprocess.run(['git', 'rev-parse', 'HEAD'])"),
    "commands beside torch": (
        {},
        "import torch, subprocess\nfor name in names:\n    subprocess.Popen(['convert', name])",
    ),
    "scripts one after another": (
        {},
        "import subprocess, sys\nfor seed in range(3):\n    subprocess.run([sys.executable, 'train.py', str(seed)])",
    ),
    "commands that are not training runs": (
        {},
        "import subprocess\nfor name in names:\n    subprocess.run(['convert', name])",
    ),
    "a pool of another kind": (
        {},
        "import torch\nfrom torch.nn import MaxPool2d\nlayers = [MaxPool2d(2) for _ in range(3)]",
    ),
    "one process for each GPU": (
        {},
        """
        import torch, torch.distributed as dist
        import torch.multiprocessing as mp
        def train(rank):
            dist.init_process_group("nccl")
            loss(rank).backward()
        mp.spawn(train, nprocs=torch.cuda.device_count())
        """,
    ),
    "a target that can't be seen": (
        {},
        "import torch\nfrom multiprocessing import Process\nfor f in jobs:\n    Process(target=f).start()",
    ),
}
