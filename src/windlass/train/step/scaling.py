"""Loss scaling for fp16, by the norm of all gradients: so it is the same on every rank of any mesh. Pure.

Source: Micikevicius et al. 2018; the constants are those of torch.amp.GradScaler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_GROWTH, _BACKOFF, _INTERVAL = 2.0, 0.5, 2000


@dataclass(frozen=True, slots=True)
class Scale:
    """By what a loss is multiplied before the backward pass, and how long that has gone well."""

    factor: float = 65536.0
    steps: int = 0

    def after(self, *, finite: bool) -> Scale:
        """The next step's. One that was not finite is not taken."""
        if not finite:
            return Scale(self.factor * _BACKOFF)
        if self.steps + 1 == _INTERVAL:
            return Scale(self.factor * _GROWTH)
        return replace(self, steps=self.steps + 1)


NONE = Scale(1.0)
