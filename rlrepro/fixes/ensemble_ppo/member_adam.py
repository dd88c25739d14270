"""Adam for the members of an ensemble: one fused step, with a learning rate for each."""

import numpy as np
import torch


class MemberAdam:
    """Steps each row of `flat` (K, P) as the optimizer of an SB3 policy steps that member's weights.

    Args:
        like: the optimizer of a policy, with its class and options
        same_rate: whether all members always have the same learning rate
        may_skip: whether a step may leave members out
    """

    def __init__(self, flat: torch.Tensor, like: torch.optim.Optimizer, *, same_rate: bool, may_skip: bool):
        options = {name: value for name, value in like.defaults.items() if name != "decoupled_weight_decay"}
        version = tuple(map(int, torch.__version__.split(".")[:2]))
        options |= {"fused": flat.device.type == "cuda" or version >= (2, 4), "foreach": None}
        self._flat, self._moves = flat, None
        if not same_rate:  # torch's step from zero with rate 1 is a move, which is then scaled for each member
            self._moves, self._decay = torch.zeros_like(flat), options["weight_decay"]
            self._is_decoupled = isinstance(like, torch.optim.AdamW)
            options |= {"weight_decay": 0, "lr": 1.0}
        target = flat if same_rate else self._moves
        self._parameters = list(target.unbind()) if may_skip else [target]
        self.adam = type(like)(self._parameters, **options)

    @torch.no_grad()
    def step(self, gradients: torch.Tensor, rates: np.ndarray, active: np.ndarray | None = None) -> None:
        """One step with gradients (K, P) and learning rates (K,); if `active` (K,) is passed, only of these members."""
        if self._moves is None:
            self.adam.param_groups[0]["lr"] = float(rates[0])
        else:
            rates = torch.as_tensor(rates if active is None else rates * active, dtype=torch.float32)
            rates = rates.to(self._flat.device).unsqueeze(1)
            if self._decay and self._is_decoupled:
                self._flat.mul_(1 - rates * self._decay)
            elif self._decay:
                gradients = gradients.add(self._flat, alpha=self._decay)
        if active is None:
            self._parameters[0].grad = gradients
        else:
            for weights, gradient, is_active in zip(self._parameters, gradients, active.tolist(), strict=True):
                weights.grad = gradient if is_active else None
        self.adam.step()
        if self._moves is not None:
            self._flat.addcmul_(self._moves, rates)
            self._moves.zero_()

    def state_of(self, member: int) -> dict[str, torch.Tensor]:
        """The moments (P,) and the number of steps of a member; empty before the first step."""
        single = len(self._parameters) == 1 and self._parameters[0].ndim == 2
        state = self.adam.state.get(self._parameters[0 if single else member], {})
        return {name: value[member] if single and value.ndim else value for name, value in state.items()}
