"""Exercises of chapter 5: large action spaces."""

import torch

from rlrepro.cases.large_actions import pearl_reimplementation
from rlrepro.course.exercises.core import Hint, exercise, how_far, near
from rlrepro.lab.memory import peak_memory


@exercise("5.1")
def transition_bytes(my_bytes, records):
    """Bytes of a transition in Pearl with 5,000 actions of 8 numbers each, without a history, including its states."""
    expected = sum(pearl_reimplementation.stored(5_000, 8).values())
    if not near(my_bytes, expected, 0.005):
        raise Hint(
            f"{my_bytes:,} bytes is {how_far(my_bytes, expected)}. What is stored twice, and how wide is a mask?"
        )


@exercise("5.2")
def mask_in_bits(my_pack, records):
    """A function that packs a boolean mask of A actions into a uint8 tensor, one bit per action."""
    for count in (8, 30, 27_000):
        mask = torch.rand(count) < 0.5
        packed = my_pack(mask)
        if packed.dtype != torch.uint8 or packed.numel() != -(-count // 8):
            raise Hint(
                f"{count} actions: expected {-(-count // 8)} bytes of uint8, found {packed.numel()} of {packed.dtype}."
            )
        for action in (0, 1, count // 2, count - 1):
            flipped = mask.clone()
            flipped[action] = ~flipped[action]
            if torch.equal(my_pack(flipped), packed):
                raise Hint(f"{count} actions: two masks that differ in action {action} look the same.")


@exercise("5.3")
def first_layer_split(my_layer, records):
    """A function of (weight, bias, states, actions): the first layer for all pairs, without building them."""
    torch.manual_seed(0)
    states, actions = torch.randn(16, 256), torch.randn(2000, 2)
    layer = torch.nn.Linear(258, 8)
    pairs = torch.cat([states[:, None].expand(-1, 2000, -1), actions.expand(16, -1, -1)], dim=-1)
    with torch.no_grad():
        output = my_layer(layer.weight, layer.bias, states, actions)
        if output.shape != (16, 2000, 8):
            raise Hint(f"Expected shape (16, 2000, 8) for 16 states and 2,000 actions, found {tuple(output.shape)}.")
        if not torch.allclose(output, layer(pairs), atol=1e-5):
            raise Hint(
                "The values are not those of the layer on [state; action]. Which columns of the weight are the state's?"
            )
        peak = peak_memory(lambda: my_layer(layer.weight, layer.bias, states, actions), device="cpu").peak_bytes
    if peak > 4 * output.numel() * 4:
        raise Hint(
            f"The values are right, but the peak is {peak / output.numel() / 4:.0f} times the result: pairs were made."
        )


@exercise("5.4")
def best_in_chunks(my_best, records):
    """A function of (critic, states, actions, size): the largest value and its action, `size` actions at a time."""
    sizes = []

    def critic(states, actions):
        sizes.append(len(actions))
        return states @ actions.T - 100

    torch.manual_seed(0)
    states, actions = torch.randn(5, 3), torch.randn(100, 3)
    values, indices = my_best(critic, states, actions, 32)
    if max(sizes, default=0) > 32:
        raise Hint(f"The critic was given {max(sizes)} actions at once.")
    if sum(sizes) != 100:
        raise Hint(f"The critic evaluated {sum(sizes)} of 100 actions.")
    values, indices = torch.as_tensor(values), torch.as_tensor(indices)
    expected = (states @ actions.T - 100).max(dim=1)
    if not torch.equal(indices.long(), expected.indices):
        raise Hint("The actions are wrong. Is an index counted from the beginning of the chunk or of the whole table?")
    if not torch.allclose(values, expected.values):
        raise Hint("The actions are right, but the values are not.")
