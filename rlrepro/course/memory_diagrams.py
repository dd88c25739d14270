"""Drawings of where activations are while a network computes, of torch's allocator, and of tensors without data.
Nothing in them was measured."""

from matplotlib.patches import Rectangle

from rlrepro.course.diagrams import FREE, arrow, drawing
from rlrepro.evidence import figures

NO_GRADIENTS, GRADIENTS, CHECKPOINTS = "without gradients", "with gradients", "with gradients and checkpoints"
LAYERS, EVERY = 6, 3  # of the network; from one checkpoint to the next


def live_layers(*modes: str):
    """Which outputs of a network's layers are in memory at each operator, in each of these modes."""
    figure, panels = drawing("What is in memory while a network computes", height=2.3 * len(modes), rows=len(modes))
    summaries, by_mode = [], {mode: live_by_moment(mode) for mode in modes}
    for axes, (mode, moments) in zip(panels if len(modes) > 1 else [panels], by_mode.items(), strict=True):
        peak = max(map(len, moments))
        for column, live in enumerate(moments):
            for layer, role in live.items():
                color = {"computed": figures.BUGGY, "read": figures.UPSTREAM, "kept": "#BBBBBB"}[role]
                axes.add_patch(Rectangle((column, layer), 0.9, 0.85, facecolor=color))
        axes.text(0, LAYERS + 1.2, f"{mode}: at most {peak} at once", fontweight="bold", va="bottom")
        axes.text(-0.2, 0.4, "input", ha="right", va="center", fontsize=9)
        axes.text(-0.2, LAYERS + 0.4, f"layer {LAYERS}", ha="right", va="center", fontsize=9)
        axes.set_xlim(-2, max(map(len, by_mode.values())))
        axes.set_ylim(-0.2, LAYERS + 2)
        summaries.append(f"{mode}: at most {peak} of the {LAYERS + 1} tensors (input and outputs) at once")
    caption = "time →   orange: being computed; blue: being read; gray: kept for later"
    axes.text(0, -0.4, caption, va="top", fontsize=9)
    axes.set_ylim(-1.2, LAYERS + 2)
    figure.described = f"A drawing of a network of {LAYERS} layers, operator by operator. {'. '.join(summaries)}."
    return figure


def live_by_moment(mode: str) -> list[dict[int, str]]:
    """The outputs in memory at each operator, by layer (0 is the input): "computed", "read" or "kept". In the backward
    pass, gradients are computed; each takes the place of the output that it belongs to."""
    forward = [{layer - 1: "read", layer: "computed"} for layer in range(1, LAYERS + 1)]
    if mode == NO_GRADIENTS:
        return forward
    saved = range(0, LAYERS + 1, EVERY if mode == CHECKPOINTS else 1)
    moments = [{index: "kept" for index in saved if index < layer} | roles for layer, roles in enumerate(forward, 1)]
    in_memory = {layer for layer in saved if layer < LAYERS}
    for layer in range(LAYERS, 0, -1):
        if layer - 1 not in in_memory:  # recompute the outputs since the last checkpoint
            for recomputed in range(max(in_memory) + 1, layer):
                moments.append(
                    dict.fromkeys([*in_memory, layer], "kept") | {recomputed - 1: "read", recomputed: "computed"}
                )
                in_memory.add(recomputed)
        moments.append(dict.fromkeys(in_memory, "kept") | {layer: "read", layer - 1: "computed"})
        in_memory.discard(layer - 1)
    return moments


def caching_allocator():
    """What a program has in tensors and what torch has reserved, before, during and after a peak."""
    figure, axes = drawing("Tensors are freed, but torch's allocator keeps the memory", height=3)
    moments = (("weights", 2, 2), ("at the peak", 9, 10), ("after it", 2, 10), ("empty_cache()", 2, 2))
    for column, (name, live, reserved) in enumerate(moments):
        x = 3 * column
        for block in range(12):
            color = figures.BUGGY if block < live else figures.UPSTREAM if block < reserved else FREE
            axes.add_patch(Rectangle((x, 0.5 * block), 2, 0.44, facecolor=color))
        axes.text(x + 1, 6.2, name, ha="center", va="bottom", fontweight="bold", fontsize=10)
    caption = "orange: in tensors; blue: reserved for the next tensor, and shown as used by nvidia-smi; gray: free"
    axes.text(0, -0.3, caption, va="top", fontsize=9)
    axes.set_xlim(-0.2, 11.4)
    axes.set_ylim(-1, 7)
    summary = "; ".join(
        f"{name}: {live} of 12 blocks in tensors, {reserved} reserved" for name, live, reserved in moments
    )
    figure.described = f"A drawing of a GPU's memory at four moments. {summary}. nvidia-smi shows what is reserved."
    return figure


def fake_tensor():
    """A tensor and its fake: the same description, and no data."""
    figure, axes = drawing("A fake tensor: everything but the data", height=2.6)
    for x, name, has_data in ((0, "a tensor", True), (6, "its fake", False)):
        axes.text(x, 4.3, name, fontweight="bold", va="bottom")
        for line, text in enumerate(("shape (256, 4, 84, 84)", "dtype float32", "device cuda")):
            axes.text(x, 3.7 - 0.6 * line, text, va="center", family="monospace", fontsize=9.5)
        for row in range(3):
            for column in range(9):
                style = {"facecolor": figures.UPSTREAM} if has_data else {"facecolor": "none", "ls": ":"}
                axes.add_patch(Rectangle((x + 0.5 * column, 0.5 * row), 0.44, 0.42, edgecolor=figures.NEUTRAL, **style))
    arrow(axes, (4.4, 3.1), (5.6, 3.1))
    caption = "An operator on fakes finds the shape of its result. Bytes are counted, and none are allocated."
    axes.text(0, -0.3, caption, va="top", fontsize=9)
    axes.set_xlim(-0.2, 11)
    axes.set_ylim(-0.9, 5)
    figure.described = (
        "Left, a tensor: its shape, type and device, above a block of data. Right, its fake: the same shape, type and "
        "device, above an empty block. Operators on fakes compute the shape of their result, and nothing is allocated."
    )
    return figure
