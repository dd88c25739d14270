"""Whether the conversion of a list of arrays takes much of a run's time."""

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
MANY = 128  # vectors in a minibatch, from which on their conversion takes a tenth of an update of a small network
KERNEL, STRIDE = 4, 2  # of convolutions: at least one of them this large, they are not for the board of a game
ACTS = re.compile(r"act|_?(select|choose|get|predict|step)")
ENVIRONMENTS = {"gym", "gymnasium", "unityagents", "dm_control", "pettingzoo", "mlagents_envs"}
SAMPLES = {"sample", "choices", "sample_batch", "sample_experience", "sample_memory", "sample_buffer", "get_batch"}


def is_frequent(module: Module, project: Project, call: ast.Call) -> bool:
    """Whether such a conversion takes much of a run's time. That needs images, or large minibatches of longer vectors
    that are sampled from a replay buffer in every step. A rollout of vectors is converted once, after far slower
    environment steps, and a single image only matters where the agent acts."""
    near = project.imported_by(module)
    vectors, images, convolution = (
        any(kind.search(other.text) for other in near) for kind in (OF_VECTORS, OF_IMAGES, CONVOLUTION)
    )
    has_images = convolution and (images or (not vectors and any(map(_sees_frames, near))))
    function = module.function(call)
    if isinstance(call.args[0], ast.List):
        return has_images and bool(ACTS.match(getattr(function, "name", "")))
    if has_images:
        return True
    arrays = any(other.packages() & ENVIRONMENTS for other in near)  # states of a self-written game are often lists
    calls = [node.func for node in walk(function) if isinstance(node, ast.Call)]
    sampled = any(last_name(call) in SAMPLES and "space" not in ast.unparse(call) for call in calls)
    sizes = [int(size) for other in near for size in BATCH_SIZE.findall(other.text)]
    is_large = sampled and arrays and min(sizes, default=0) >= MANY
    return is_large and not project.mentions(OF_SHORT_VECTORS, module.path)


def _sees_frames(module: Module) -> bool:
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
