"""Training runs one after another in a process: the rollout buffers that are in memory at the same time."""

import gc
import weakref

OBSERVATION_SIZE = 4 * 84 * 84  # as many numbers as a stack of Atari frames has pixels


def buffers_in_memory(runs: int, steps: int, collect: bool) -> list[tuple[int, int]]:
    """The most rollout buffers in memory during each of `runs` training runs of PPO, its own among them, and the bytes
    of their arrays. A run takes `steps` timesteps, in four rollouts. `collect` calls the garbage collector after each
    run."""
    import gymnasium as gym
    import numpy as np
    import torch
    from stable_baselines3 import PPO

    space = gym.spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,))
    env = gym.wrappers.TransformObservation(
        gym.make("CartPole-v1"), lambda observation: np.full(OBSERVATION_SIZE, observation[0]), space
    )
    buffers, most = [], []

    def count_buffers(*_) -> bool:
        alive = [buffer for reference in buffers if (buffer := reference()) is not None]
        arrays = [array for buffer in alive for array in vars(buffer).values() if isinstance(array, np.ndarray)]
        most[-1] = max(most[-1], (len(alive), sum(array.nbytes for array in arrays)))
        return True

    gc.unfreeze()  # Release froze what it imported; in a script, Python considers all objects when it collects
    gc.collect()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    options = {"n_steps": steps // 4, "batch_size": 32, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    for seed in range(runs):
        model = PPO("MlpPolicy", env, **options, seed=seed, device="cpu")
        buffers.append(weakref.ref(model.rollout_buffer))
        most.append((0, 0))
        model.learn(steps, callback=count_buffers)
        del model  # the last reference to it
        if collect:
            gc.collect()
    torch.set_num_threads(threads)
    return most
