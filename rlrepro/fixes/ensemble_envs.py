"""The environments of an ensemble: each member's own, stepped together."""

import time
from collections.abc import Callable, Sequence

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from loky import cpu_count

TRIED_STEPS = 50
MESSAGE_SECONDS = 0.3e-3  # that a step in another process takes on top
VECTORIZATIONS = ("auto", "sync", "async")


def make_envs(env, members: int, n_envs: int, vectorization: str) -> VectorEnv:
    """members × n_envs environments, those of a member side by side. `env` is what `EnsemblePPO` takes."""
    if vectorization not in VECTORIZATIONS:
        raise ValueError(f"vectorization must be one of {VECTORIZATIONS}, found {vectorization!r}")
    factories = [_factory(each) for each in ([env] * members if callable(env) or isinstance(env, str) else env)]
    if len(factories) != members:
        raise ValueError(f"expected an environment for each of {members} members, found {len(factories)}")
    step_seconds = check_spaces(factories)
    if vectorization == "auto":
        vectorization = "async" if step_seconds * (cpu_count() - 1) > MESSAGE_SECONDS else "sync"
    makers = [_Labelled(factory, member) for member, factory in enumerate(factories) for _ in range(n_envs)]
    if vectorization == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    # a process that has computed with several threads must not be forked
    return AsyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP, context="forkserver")


def check_spaces(factories: Sequence[Callable[[], gym.Env]]) -> float:
    """Raises ValueError where the members' spaces differ or can't be trained on; seconds of a step of the first."""
    first = None
    for member, factory in enumerate(factories):
        env = factory()
        spaces = env.observation_space, env.action_space
        if first is None:
            first, step_seconds = spaces, _step_seconds(env)
            _check_kind(*spaces)
        env.close()
        if [(each.shape, type(each)) for each in spaces] != [(each.shape, type(each)) for each in first] or (
            getattr(spaces[1], "n", None) != getattr(first[1], "n", None)
        ):
            raise ValueError(
                f"all members must have spaces of one shape: member {member} has {spaces}, member 0 has {first}"
            )
    return step_seconds


def _check_kind(observation_space, action_space) -> None:
    if not isinstance(observation_space, gym.spaces.Box) or len(observation_space.shape) > 2:
        raise ValueError(f"observations must be vectors (a Box of one dimension), found {observation_space}")
    if not isinstance(action_space, gym.spaces.Box | gym.spaces.Discrete):
        raise ValueError(f"actions must be a Box or Discrete, found {action_space}")


def _factory(env) -> Callable[[], gym.Env]:
    return env if callable(env) else lambda: gym.make(env)


def _step_seconds(env) -> float:
    env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(TRIED_STEPS):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - start) / TRIED_STEPS


class _Labelled:
    """Makes an environment whose errors say to which member it belongs."""

    def __init__(self, factory, member: int):
        self.factory, self.member = factory, member

    def __call__(self) -> gym.Env:
        return _Labels(self.factory(), self.member)


class _Labels(gym.Wrapper):
    def __init__(self, env, member: int):
        super().__init__(env)
        self.member = member

    def step(self, action):
        try:
            return self.env.step(action)
        except Exception as error:
            error.add_note(f"This was raised in step() of the environment of member {self.member}.")
            raise
