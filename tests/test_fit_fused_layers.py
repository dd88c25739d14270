"""A transformer encoder that runs without gradients is planned as the operator that it then is."""

import pytest
import torch
from torch import nn

from rlrepro.fit import plan_update
from rlrepro.lab import VirtualCard, peak_memory

BATCH, STEPS, FEATURES = 64, 64, 64  # equal, so that only positions tell them apart
MASKS = {
    "no mask": dict,
    "a padding mask": lambda: {"src_key_padding_mask": (torch.arange(STEPS) % 2 > 0).expand(BATCH, STEPS)},
    "a causal mask": lambda: {"mask": torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)},
}


def make_encoder():
    layer = nn.TransformerEncoderLayer(FEATURES, 4, 4 * FEATURES, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval()


@pytest.mark.parametrize("without_gradients", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_a_plan_of_an_encoder_without_gradients_is_right(masks, without_gradients):
    def step(encoder):
        with without_gradients():
            encoder(torch.rand(BATCH, STEPS, FEATURES), **masks())

    def run():
        step(make_encoder())

    planned = plan_update(make_encoder, step, device="cpu")
    with VirtualCard(None, device="cpu") as card:
        run()
    assert planned.stages["update"] == card.peak_bytes
    measured = peak_memory(run, device="cpu").peak_bytes
    assert measured <= planned.peak_bytes <= 1.05 * measured
