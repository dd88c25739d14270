"""The environments of an ensemble: each member has its own, and all step together."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv, VectorEnv

from .checks import check_spaces

try:  # from gymnasium 1.1 on you can choose when an environment is reset: here in the step that ends its episode
    from gymnasium.vector import AutoresetMode

    AUTORESET, FINAL_OBS = {"autoreset_mode": AutoresetMode.SAME_STEP}, "final_obs"
except ImportError:  # gymnasium 0.29 always does that
    if gym.__version__.startswith("1."):
        raise ImportError(
            f"gymnasium must be 0.29, or 1.1 or later; {gym.__version__} resets one step too late"
        ) from None
    AUTORESET, FINAL_OBS = {}, "final_observation"

INFO = "info_of_env"
TIMED_STEPS = 50
MESSAGE_SECONDS = 0.3e-3  # extra time of a step in another process
VECTORIZATIONS = ("auto", "sync", "async")
Spaces = tuple[gym.Space, gym.Space]  # of observations and of actions


def prepare_envs(env, members: int, n_envs: int, vectorization: str) -> tuple[Spaces, Callable[[], VectorEnv]]:
    """The spaces of an environment, and what starts members × n_envs of them, those of a member side by side. `env` is
    as in `EnsemblePPO`."""
    if isinstance(env, VectorEnv):
        _check_vectorized(env, members, n_envs)
        return (env.single_observation_space, env.single_action_space), lambda: env
    if vectorization not in VECTORIZATIONS:
        raise ValueError(f"vectorization must be one of {VECTORIZATIONS}, found {vectorization!r}")
    factories = [_factory(spec) for spec in (env if isinstance(env, list | tuple) else [env] * members)]
    if len(factories) != members:
        raise ValueError(f"expected an environment for each of {members} members, found {len(factories)}")
    spaces, step_seconds = _check_members(factories, n_envs)
    if vectorization == "auto":
        vectorization = "async" if step_seconds * (_cores() - 1) > MESSAGE_SECONDS else "sync"
    env_fns = [partial(_MemberEnv, factory, member) for member, factory in enumerate(factories) for _ in range(n_envs)]
    if vectorization == "sync":
        return spaces, partial(SyncVectorEnv, env_fns, **AUTORESET)
    from .processes import EnvProcesses  # needs loky

    return spaces, partial(EnvProcesses, env_fns, n_envs, **AUTORESET)


def _check_vectorized(env: VectorEnv, members: int, n_envs: int) -> None:
    if env.num_envs != members * n_envs:
        raise ValueError(f"expected {members} members × {n_envs} environments, found a VectorEnv of {env.num_envs}")
    mode = env.metadata.get("autoreset_mode")
    if AUTORESET and mode != AutoresetMode.SAME_STEP:
        raise ValueError(
            "a VectorEnv must reset an environment in the step that ends its episode (autoreset_mode SAME_STEP), found "
            f"{mode}: other modes add transitions that no environment made"
        )
    check_spaces(env.single_observation_space, env.single_action_space)


def _cores() -> int:
    """Cores that this process may use; 1 without loky, since there are then no other processes to use them."""
    try:
        from loky import cpu_count
    except ImportError:
        return 1
    return cpu_count()


def _check_members(factories: Sequence[Callable[[], gym.Env]], n_envs: int) -> tuple[Spaces, float]:
    """The members' spaces, and the seconds of a step of the first one's environment. Raises ValueError if two
    environments are the same, or if the spaces of members differ or can't be trained on."""
    envs = []
    try:
        for member, factory in [*enumerate(factories), *enumerate(factories if n_envs > 1 else ())]:
            envs.append(factory())
            if any(envs[-1].unwrapped is other.unwrapped for other in envs[:-1]):
                raise ValueError(f"member {member} shares an environment; make a new one in each call of env")
            first, spaces = ((env.observation_space, env.action_space) for env in (envs[0], envs[-1]))
            if spaces != first:
                raise ValueError(f"members must have equal spaces: member {member} has {spaces}, member 0 has {first}")
        check_spaces(*first)
        return first, _step_seconds(envs[0])
    finally:
        for env in envs:
            env.close()


def _factory(env) -> Callable[[], gym.Env]:
    if not callable(env) and not isinstance(env, str):
        raise ValueError(
            "env must be an id or a function that makes an environment, since each member needs its own; "
            f"found {env!r}: pass lambda: gym.make(...)"
        )
    # a process of its own has not run a script's gym.register, so it gets what is registered here
    return env if callable(env) else partial(gym.make, gym.registry.get(env, env))


def _step_seconds(env) -> float:
    env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(TIMED_STEPS):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    return (time.perf_counter() - start) / TIMED_STEPS


class _MemberEnv(gym.Wrapper):
    """An environment whose errors name its member. Its infos are passed on unchanged, as `infos[INFO][i][0]`:
    Gymnasium would make arrays of their values, which may differ in type and shape."""

    def __init__(self, factory: Callable[[], gym.Env], member: int):
        super().__init__(factory())
        self.member, self._info = member, {}

    def reset(self, **options):
        return self.env.reset(**options)[0], {INFO: (self._info,)}  # of the step that ended the episode

    def step(self, action):
        try:
            *transition, self._info = self.env.step(action)
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note(f"Raised in step() of the environment of member {self.member}.")
            raise
        return *transition, {INFO: (self._info,)}
