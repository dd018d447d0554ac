"""Policies for bad steps: NaN or infinite gradients, and loss spikes.

`finite_check` and `health.loss_spike` detect them; the run leaves such a step out, returns to a checkpoint, or ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from windlass.train.errors import TrainError
from windlass.train.health.loss_spike import LossWindow, Spike
from windlass.train.mesh.degrees import Degrees
from windlass.train.options import RunOptions

_MAX_SKIPPED_STEPS = 20
"""Maximum number of skipped steps in a row."""


class BadSteps:
    """The bad steps of one run; equal on all ranks."""

    def __init__(self, options: RunOptions, *, needs_scaling: bool) -> None:
        """`needs_scaling`: skipped steps find the loss scale, as in fp16."""
        self._options, self._needs_scaling = options, needs_scaling
        self.skipped = 0
        """Number of steps in a row that were skipped."""
        self.loss_window = LossWindow()
        """Losses that the next one is compared with, where loss spikes are detected."""
        self.rollback_reason = ""
        """Reason for which all ranks return to a checkpoint after this step; "" if they do not."""

    @property
    def detects_spikes(self) -> bool:
        """Whether losses are checked for spikes, so that the step consensus has to gather them."""
        return bool(self._options.spike)

    def find_spike(self, shares: Sequence[float], degrees: Degrees) -> Spike | None:
        """Return the spike of the mean loss of a batch, if it is one. `shares`: the share of each rank."""
        if not self.detects_spikes:
            return None
        return self.loss_window.check(sum(shares) / (degrees.data_ranks * degrees.cp * degrees.tp))

    def react(self, step: int, norm: Tensor | None, spike: Spike | None) -> str:
        """Apply the policy to a bad step, which is left out. Returns the message about it, "" for none.

        `norm`: of the gradients, if it was measured. `spike`: None for NaN or infinite gradients. Raises TrainError
        if the policy ends the run.
        """
        self.skipped += 1
        cause = "the loss or a gradient" if norm is None else f"the gradient norm ({float(norm)}) or the loss"
        what = f"{cause} is not finite" if spike is None else str(spike)
        policy = self._options.spike if spike else self._options.not_finite
        if spike is None and self._needs_scaling and self.skipped <= _MAX_SKIPPED_STEPS:
            return ""
        if policy == "skip" and self.skipped <= _MAX_SKIPPED_STEPS:
            return f"step {step} is skipped: {what}"
        if policy == "rollback":
            self.rollback_reason = f"step {step}: {what}"
            return ""
        raise TrainError(
            f"step {step}: {what}; try a lower learning rate, clip=1.0, bf16 instead of fp16, "
            f'or {"spike" if spike else "not_finite"}="skip" for single bad batches, or "rollback"'
        )
