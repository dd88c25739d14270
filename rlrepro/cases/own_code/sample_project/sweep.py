"""Training runs with several seeds at once."""

import multiprocessing

from stable_baselines3 import PPO

SEEDS = 4
STEPS = 128


def train(seed):
    model = PPO(
        "MlpPolicy", "Pendulum-v1", seed=seed, n_steps=STEPS, policy_kwargs={"net_arch": [256, 256]}, device="cpu"
    )
    model.learn(STEPS)
    return seed


def main():
    with multiprocessing.Pool(SEEDS) as pool:
        pool.map(train, range(SEEDS))


if __name__ == "__main__":
    main()
