"""Threads that a fork loses, that are set too late or by a variable that nothing reads; environments that compute."""

TROUBLED = {
    "fork after work": (
        {"PT001", "PT002"},
        {},
        """
        import torch
        from multiprocessing import Pool
        def train(seed):
            loss(seed).backward()
        def main():
            train(0).sum().backward()
            with Pool(4) as pool:
                pool.map(train, range(4))
        """,
    ),
    "fork after learning, with a limit": (
        {"PT002"},
        {},
        """
        import torch, os
        from stable_baselines3 import PPO
        from concurrent.futures import ProcessPoolExecutor
        os.environ["OMP_NUM_THREADS"] = "1"
        def main(model):
            model.learn(1000)
            with ProcessPoolExecutor() as pool:
                pool.map(evaluate, range(4))
        """,
    ),
    "threads set too late": (
        {"PT003"},
        {},
        "import torch\nloss = model(x)\nloss.backward()\ntorch.set_num_threads(1)",
    ),
    "interop threads set too late": (
        {"PT003"},
        {},
        "import torch\ndef main():\n    model(x).backward()\n    torch.set_num_interop_threads(1)",
    ),
    "environments that compute": (
        {"PT004"},
        {},
        """
        import torch
        import gymnasium as gym
        from stable_baselines3.common.vec_env import SubprocVecEnv
        class Learned(gym.Env):
            def reset(self, seed=None, options=None):
                return self.state, {}
            def step(self, action):
                self.state = torch.tanh(self.model(action))
                return self.state, 0, False, False, {}
        envs = SubprocVecEnv([Learned for _ in range(8)])
        """,
    ),
    "asynchronous environments that compute": (
        {"PT004"},
        {},
        """
        import gymnasium, torch
        class World(gymnasium.Env):
            def reset(self, **options): return torch.zeros(3).numpy(), {}
            def step(self, action): return torch.matmul(self.model, action).numpy(), 0.0, False, False, {}
        envs = gymnasium.vector.AsyncVectorEnv([World] * 4)
        """,
    ),
    "a variable that nothing reads": ({"PT005"}, {}, 'import os\nos.environ["TORCH_NUM_THREADS"] = "1"\nimport torch'),
    "the same for a child": (
        {"PT005"},
        {},
        'import os, subprocess\nsubprocess.run(command, env=dict(os.environ, TORCH_NUM_THREADS="1"))',
    ),
}

INNOCENT = {
    "a variable that the program reads itself": (
        {},
        """
        import os, torch
        os.environ.setdefault("TORCH_NUM_THREADS", "1")
        torch.set_num_interop_threads(int(os.environ["TORCH_NUM_THREADS"]))
        """,
    ),
    "a variable beside the one that is read": (
        {},
        'import os\nos.environ["TORCH_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"',
    ),
    "spawn after work": (
        {},
        """
        import torch, multiprocessing
        from rlrepro.fixes import limit_threads
        def main():
            table = torch.randn(10, 10)
            with multiprocessing.get_context("spawn").Pool(4) as pool:
                pool.map(evaluate, table)
        """,
    ),
    "threads set first": ({}, "import torch\ntorch.set_num_threads(1)\nx = torch.randn(3)"),
    "threads set in another function": (
        {},
        "import torch\ndef a():\n    return torch.randn(3)\ndef worker():\n    torch.set_num_threads(1)",
    ),
    "environments that do not compute": (
        {},
        """
        import torch
        from stable_baselines3.common.vec_env import SubprocVecEnv
        class Game:
            def reset(self): return 0
            def step(self, action): return 0
        envs = SubprocVecEnv([Game for _ in range(8)])
        """,
    ),
    "environment workers without torch": (
        {},
        """
        import torch
        from multiprocessing import Process
        def worker(remote, make):
            env = make()
            while True:
                remote.send(env.step(remote.recv()))
        class Envs:
            def __init__(self, makers):
                self.processes = [Process(target=worker, args=(None, each)) for each in makers]
        class Agent:
            def step(self):
                self.loss.backward()
        """,
    ),
    "branches of one if": (
        {},
        """
        import os, torch
        from multiprocessing import Pool
        def main(alone, seeds):
            if alone:
                train(0).backward()
            else:
                with Pool(4) as pool:
                    pool.map(print, seeds)
        """,
    ),
}
