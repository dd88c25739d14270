"""PearlFactoredQ: a FactoredQ as Pearl's critic.

SoftActorCritic(..., critic_network_type=PearlFactoredQ)
"""

import torch
from pearl.neural_networks.sequential_decision_making.q_value_networks import QValueNetwork

from .factored_q import FactoredQ


class PearlFactoredQ(QValueNetwork):
    """Replaces Pearl's `VanillaQValueNetwork`, with the same layers, the same initial weights and, up to rounding, the
    same values. `options` are FactoredQ's. Raises ValueError for more than one output."""

    def __init__(self, state_dim: int, action_dim: int, hidden_dims: list[int], output_dim: int = 1, **options):
        super().__init__()
        if output_dim != 1:
            raise ValueError(f"output_dim must be 1, one value per state and action; found {output_dim}")
        self._model = FactoredQ(state_dim, action_dim, hidden_dims, **options)

    def apply(self, fn) -> "PearlFactoredQ":
        """Apply `fn` to the layers of the plain network, since Pearl initializes weights by a layer's size."""
        plain = self._model.to_sequential().apply(fn)
        self._model.load_state_dict(FactoredQ.from_sequential(plain, self.state_dim).state_dict())
        return self

    @property
    def state_dim(self) -> int:
        return self._model.state_dim

    @property
    def action_dim(self) -> int:
        return self._model.action_dim

    def get_q_values(
        self,
        state_batch: torch.Tensor,
        action_batch: torch.Tensor,
        curr_available_actions_batch: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Values (B,) of one action per state (B, d), or (B, A) of each state's own actions (B, A, d)."""
        action_batch = action_batch.to(self._model.action_layer.weight.dtype)  # those of Discrete spaces are integers
        if action_batch.ndim == 2:
            return self._model.of(state_batch, action_batch)
        return self._model(state_batch, action_batch)
