"""Rollouts from robots that are simulated side by side."""

import time

import torch
from torchrl.envs import GymEnv, ParallelEnv

ROBOTS = 2
STEPS = 100
SIMULATION = 0.02  # seconds of a step


class Robot(GymEnv):
    def _step(self, tensordict):
        time.sleep(SIMULATION)  # stands for a simulator that another process runs
        return super()._step(tensordict)


def make_robot():
    return Robot("Pendulum-v1")


def main():
    torch.set_num_threads(1)
    env = ParallelEnv(ROBOTS, make_robot, mp_start_method="fork")
    env.rollout(STEPS, break_when_any_done=False)
    env.close()


if __name__ == "__main__":
    main()
