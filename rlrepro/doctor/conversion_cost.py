"""Judge whether converting lists of arrays takes much of a training run's time."""

import ast
import re

from rlrepro.doctor.arrays import CONVOLUTION
from rlrepro.doctor.ast_index import Module, last_name, walk
from rlrepro.doctor.project import Project

OF_SHORT_VECTORS = re.compile(r"CartPole|LunarLander|MountainCar|Pendulum|Acrobot")
OF_VECTORS = re.compile(rf"{OF_SHORT_VECTORS.pattern}|Hopper|HalfCheetah|Walker2?d?-v|Swimmer")
OF_IMAGES = re.compile(
    r"ALE/|NoFrameskip|Breakout|Pong|Invaders|CarRacing|Doom|Mario|MiniGrid|make_atari|AtariPre|pixels", re.IGNORECASE
)
BATCH_SIZE = re.compile(r"batch[_-]?size['\"]?\s*[,:=][^\d\n]{0,40}?(\d+)", re.IGNORECASE)
MIN_VECTORS = 128  # vectors in a minibatch; from here on, their conversion takes a tenth of a small network's update
KERNEL, STRIDE = 4, 2  # a convolution that reaches one of these is not for the board of a game
ACTS = re.compile(r"act|_?(select|choose|get|predict|step)")
ENVIRONMENTS = {"gym", "gymnasium", "unityagents", "dm_control", "pettingzoo", "mlagents_envs"}
SAMPLES = {"sample", "choices", "sample_batch", "sample_experience", "sample_memory", "sample_buffer", "get_batch"}


def is_frequent(module: Module, project: Project, call: ast.Call) -> bool:
    """Whether such a conversion takes much of a run's time. This requires images, or large minibatches of longer
    vectors that are sampled from a replay buffer in every step. A rollout of vectors is converted once, after far
    slower environment steps, and a single image only matters where the agent acts."""
    modules = project.imported_by(module)
    has_vectors, has_image_env, has_convolution = (
        any(kind.search(mod.text) for mod in modules) for kind in (OF_VECTORS, OF_IMAGES, CONVOLUTION)
    )
    has_images = has_convolution and (has_image_env or (not has_vectors and any(map(_has_large_kernels, modules))))
    function = module.function(call)
    if isinstance(call.args[0], ast.List):
        return has_images and bool(ACTS.match(getattr(function, "name", "")))
    if has_images:
        return True
    has_env = any(mod.packages() & ENVIRONMENTS for mod in modules)  # states of self-written games are often lists
    callees = [node.func for node in walk(function) if isinstance(node, ast.Call)]
    is_sampled = any(last_name(callee) in SAMPLES and "space" not in ast.unparse(callee) for callee in callees)
    sizes = [int(size) for mod in modules for size in BATCH_SIZE.findall(mod.text)]
    is_large = is_sampled and has_env and min(sizes, default=0) >= MIN_VECTORS
    return is_large and not project.mentions(OF_SHORT_VECTORS, module.path)


def _has_large_kernels(module: Module) -> bool:
    """Whether a network has convolutions with kernels or strides that are too large for the board of a game."""
    return any(
        _size(module, call, "kernel_size", 2) >= KERNEL or _size(module, call, "stride", 3) >= STRIDE
        for call in module.all_calls
        if last_name(call.func) in ("Conv2d", "Conv3d")
    )


def _size(module: Module, call: ast.Call, name: str, position: int) -> int:
    node = module.argument(call, name, position)
    first = node.elts[0] if isinstance(node, ast.Tuple | ast.List) and node.elts else node
    return size if isinstance(size := module.value(first), int) else 0
