"""The same training with several seeds at once."""

import multiprocessing

from stable_baselines3 import PPO

SEEDS = 4


def train(seed):
    model = PPO(
        "MlpPolicy", "Pendulum-v1", seed=seed, n_steps=128, policy_kwargs={"net_arch": [256, 256]}, device="cpu"
    )
    model.learn(128)
    return seed


def main():
    with multiprocessing.get_context("spawn").Pool(SEEDS) as pool:
        pool.map(train, range(SEEDS))


if __name__ == "__main__":
    main()
