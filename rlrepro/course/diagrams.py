"""Drawings of mechanisms that are easily misunderstood. Nothing in them was measured."""

import random

from matplotlib.patches import Polygon, Rectangle

from rlrepro.evidence import figures

EPISODES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
FREE = "#EEEEEE"


def drawing(title: str, *, width: float = 7.2, height: float, rows: int = 1):
    """A figure without axes lines, for boxes and arrows."""
    figure, axes = figures.new_figure(title, width=width, height=height, rows=rows)
    figure.is_drawing = True
    for panel in [axes] if rows == 1 else axes:
        panel.set_axis_off()
    return figure, axes


def arrow(axes, start, end) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": figures.NEUTRAL, "lw": 1.8})


def ppo_update():
    """The stages of a PPO update, and the size that limits how many transitions pass through a network at a time."""
    figure, axes = drawing("One PPO iteration: which size limits which stage", height=4.4)
    stages = (
        ("collect", "actor", 1, figures.NEUTRAL, "one for each\nenvironment"),
        ("returns", "critic", 4, figures.UPSTREAM, "max_batchsize"),
        ("logp_old\nin 1.0.0", "actor", 12, figures.BUGGY, "nothing:\nall at once"),
        ("logp_old\nfrom 1.1.0", "actor", 4, figures.UPSTREAM, "max_batchsize"),
        ("learn", "actor and critic,\nwith gradients", 3, figures.OURS, "batch_size"),
    )
    for column, (stage, network, chunk, color, limit) in enumerate(stages):
        x = 2.2 * column
        for row in range(0, 12, chunk):
            axes.add_patch(Rectangle((x + 0.25, 12 - row - chunk), 1.2, chunk - 0.15, color=color, alpha=0.8))
        text = {"ha": "center", "fontsize": 10}
        axes.text(x + 0.85, 12.4, stage, fontweight="bold", va="bottom", **text)
        axes.text(x + 0.85, -0.4, network, va="top", color=figures.NEUTRAL, **text)
        axes.text(x + 0.85, -2.6, limit, va="top", color=color, fontweight="bold", **text)
        if stage.endswith("1.1.0"):
            axes.text(x - 0.25, 6, "or", ha="center", va="center")
        elif column:
            arrow(axes, (x - 0.6, 6), (x + 0.15, 6))
    axes.text(-0.15, 6, "12 transitions of the rollout", rotation=90, va="center", ha="right", color=figures.NEUTRAL)
    axes.text(-0.3, -0.4, "network", va="top", ha="right", color=figures.NEUTRAL)
    axes.text(-0.3, -2.6, "limited by", va="top", ha="right", color=figures.NEUTRAL)
    axes.set_xlim(-1.6, 10.6)
    axes.set_ylim(-4.4, 14.2)
    figure.described = (
        "Five columns of the same 12 transitions, in the blocks that pass through a network at a time. Collect: single "
        "transitions. Returns: blocks of max_batchsize, through the critic. logp_old in 1.0.0: one block of all 12, "
        "through the actor; from 1.1.0 on, blocks of max_batchsize. Learn: blocks of batch_size, with gradients."
    )
    return figure


def ring_buffer(written: int, *, capacity: int = 8, episode: int = 4):
    """A ring of `capacity` places after `written` transitions in episodes of `episode` steps: what is left of each."""
    figure, axes = drawing(f"{written} transitions written to a ring of {capacity} places", height=2.3)
    write_position = written % capacity
    remaining = {}
    for step in range(max(0, written - capacity), written):
        remaining.setdefault(step // episode, []).append(step)
    for slot in range(capacity):
        axes.add_patch(Rectangle((slot, 0), 0.94, 1, facecolor=FREE))
        axes.text(slot + 0.47, -0.12, str(slot), ha="center", va="top", color=figures.NEUTRAL, fontsize=9)
    for number, steps in remaining.items():
        for step in steps:
            slot = step % capacity
            axes.add_patch(Rectangle((slot, 0), 0.94, 1, facecolor=EPISODES[number % len(EPISODES)]))
            last = (step + 1) % episode == 0
            text = f"{number}\nend" if last else str(number)
            axes.text(slot + 0.47, 0.5, text, ha="center", va="center", color="white", fontweight="bold", fontsize=10)
    axes.annotate(
        "next write",
        (write_position + 0.47, 1.03),
        (write_position + 0.47, 1.75),
        ha="center",
        color=figures.BUGGY,
        fontweight="bold",
        arrowprops={"arrowstyle": "-|>", "color": figures.BUGGY, "lw": 2},
    )
    contents = []
    for number, steps in remaining.items():
        finished = steps[-1] == number * episode + episode - 1
        cut = len(steps) < episode and finished
        contents.append(f"episode {number}: {len(steps)} steps{', cut' if cut else '' if finished else ', not ended'}")
    axes.text(0, -0.75, "    ".join(contents), va="top", fontsize=9.5, color=figures.NEUTRAL)
    axes.set_xlim(-0.1, capacity + 0.1)
    axes.set_ylim(-1.3, 2.1)
    figure.described = (
        f"A ring buffer of {capacity} places after {written} transitions in episodes of {episode}; the next write goes "
        f"to place {write_position}. In it: {'; '.join(contents)}."
    )
    return figure


def cores_over_time(*, cores: int = 4, steps: int = 36):
    """Four training runs on four cores over time: with one thread each, and with as many each as there are cores."""
    figure, panels = drawing(
        "Four training runs on four cores: the same work, done by one thread or by four", height=5, rows=2
    )
    summaries = []
    for axes, threads in zip(panels, (1, cores), strict=True):
        slots, finished = _schedule(cores, processes=4, threads=threads, steps=steps)
        for core, step, process, working in slots:
            style = {"facecolor": EPISODES[process]} if working else {"facecolor": "white", "hatch": "////"}
            axes.add_patch(Rectangle((step, core), 0.95, 0.85, edgecolor=EPISODES[process], lw=0.6, **style))
        share = sum(working for *_, working in slots) / len(slots)
        name = "1 thread each" if threads == 1 else f"{threads} threads each"
        summaries.append(f"{name}: {finished} operations finished, {share:.0%} of the time at work")
        axes.text(0, -0.35, summaries[-1], fontweight="bold")
        for core in range(cores):
            axes.text(-0.4, core + 0.42, f"core {core}", ha="right", va="center", fontsize=9, color=figures.NEUTRAL)
        axes.set_xlim(-3.5, steps)
        axes.set_ylim(cores, -1)
    panels[1].text(
        steps / 2,
        cores + 0.2,
        "time →    a color for each run; filled: at work; hatched: "
        "spinning while it waits for a thread that has no core",
        ha="center",
        va="top",
        fontsize=9,
    )
    panels[1].set_ylim(cores + 0.8, -1)
    figure.described = "A drawing of four cores over time, shared by four training runs. " + ". ".join(summaries) + "."
    return figure


def _schedule(cores: int, *, processes: int, threads: int, steps: int, turn: int = 3) -> tuple[list, int]:
    """Give cores to threads in turns of `turn` steps. An operation is `cores` steps of work, divided among the threads
    of a process; a thread that has done its share spins until the others have.

    Returns (core, step, process, working) for each slot, and how many operations were finished.
    """
    share = cores // threads
    work_left = {(process, thread): share for process in range(processes) for thread in range(threads)}
    waiting = list(work_left)
    random.Random(0).shuffle(waiting)
    running, slots, finished = {}, [], 0
    for step in range(steps):
        for core in range(cores):
            holder, start = running.get(core, (None, step))
            if holder is None or step - start >= turn:
                if holder is not None:
                    waiting.append(holder)
                running[core] = (waiting.pop(0), step)
        for core, (holder, _) in running.items():
            working = work_left[holder] > 0
            work_left[holder] -= working
            slots.append((core, step, holder[0], working))
        for process in range(processes):
            team = [(process, thread) for thread in range(threads)]
            if not any(work_left[member] for member in team):
                work_left.update(dict.fromkeys(team, share))
                finished += 1
    return slots, finished


def actions_block():
    """The input of a critic that evaluates every action, and what remains of it if the first layer is split."""
    figure, axes = drawing("All actions of a batch: concatenated, or split", height=4.2)
    _box(axes, 0, 0, (3.6, 3.4, 1.5), "#BBBBBB")
    _box(axes, 3.6, 0, (0.35, 3.4, 1.5), figures.BUGGY)
    axes.text(1.8, 1.7, "the state,\nthe same for\nevery action", ha="center", va="center", fontsize=10)
    axes.annotate(
        "the action",
        (3.78, 0.2),
        (3.6, -0.75),
        ha="center",
        color=figures.BUGGY,
        fontweight="bold",
        arrowprops={"arrowstyle": "-", "color": figures.BUGGY},
    )
    axes.text(-0.15, 1.7, "A actions", rotation=90, ha="right", va="center")
    axes.text(1.5, -0.12, "S + d features", ha="center", va="top")
    axes.text(0.25, 4.1, "B states", ha="right", va="bottom")
    axes.text(2.4, 5.0, "B × A × (S + d) numbers", ha="center", fontweight="bold", color=figures.BUGGY)

    axes.text(6.5, 2.2, "or", ha="center", fontsize=14)
    _box(axes, 7.6, 2.6, (2.4, 0.9, 0), "#BBBBBB")
    axes.text(8.8, 3.05, "B × S", ha="center", va="center")
    axes.text(8.8, 3.65, "each state once", ha="center", va="bottom", fontsize=10)
    _box(axes, 7.6, 0, (0.35, 2.0, 0), figures.BUGGY)
    for row in range(4):
        axes.plot((7.6, 7.95), (0.5 * row, 0.5 * row), color="white", lw=2)
    axes.text(8.15, 1.0, "A × d, each action once,\na chunk at a time", ha="left", va="center", fontsize=10)
    axes.text(9.4, 5.0, "B × S + A × d numbers", ha="center", fontweight="bold", color=figures.OURS)
    axes.set_xlim(-0.8, 11.8)
    axes.set_ylim(-1.0, 5.5)
    figure.described = (
        "Left: a block of B states by A actions by S + d features, of which all but the last d are the state, repeated "
        "for every action. Right: the same without repetition, B × S numbers for the states and A × d for the actions, "
        "which are evaluated a chunk at a time."
    )
    return figure


def _box(axes, x: float, y: float, size: tuple[float, float, float], color: str) -> None:
    """A block whose front has its lower left corner at (x, y); its depth goes up and to the right."""
    width, height, depth = size
    slant, right, top = depth * 0.6, x + width, y + height
    faces = (
        [(x, y), (right, y), (right, top), (x, top)],
        [(x, top), (right, top), (right + slant, top + slant), (x + slant, top + slant)],
        [(right, y), (right + slant, y + slant), (right + slant, top + slant), (right, top)],
    )
    for face, alpha in zip(faces, (0.85, 0.6, 0.7), strict=True):
        axes.add_patch(Polygon(face, facecolor=color, edgecolor="white", alpha=alpha, lw=1))
