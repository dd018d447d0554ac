"""One step of the optimizer on which all ranks agree: their reports, the gradients, then the update or its omission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from windlass.train.health.loss_spike import Spike
from windlass.train.health.stop_signals import StopRequests
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel.precision import PrecisionPolicy
from windlass.train.step.bad_steps import BadSteps
from windlass.train.step.consensus import StepConsensus, StepReport
from windlass.train.step.finite_check import FiniteCheck
from windlass.train.step.optimizer import (
    NO_SCALING,
    LossScale,
    clip_and_step,
    parameters_of,
    reduce_gradients_and_norm,
)
from windlass.train.telemetry.phase_timers import PhaseTimers


class OptimizerStep:
    """The steps of one run. `warn` prints a line about a bad step, on one rank."""

    def __init__(
        self,
        precision: PrecisionPolicy,
        bad_steps: BadSteps,
        requests: StopRequests,
        timers: PhaseTimers,
        device: torch.device,
        warn: Callable[[str], None],
    ) -> None:
        self._needs_scaling = precision.needs_scaling
        self._bad_steps, self._requests, self._timers = bad_steps, requests, timers
        self._device, self._warn = device, warn
        self.scale = LossScale() if precision.needs_scaling else NO_SCALING
        self.wants_save: Callable[[], bool] = bool
        """Tells whether this rank wants a save after the step."""
        self.save_duration: Callable[[], float] = float
        """Returns the seconds that a save takes."""
        self.before_update: Callable[[], None] = _no_wait
        """Is called right before parameters change."""

    def take(
        self,
        optimizer: torch.optim.Optimizer,
        mesh: Mesh,
        consensus: StepConsensus,
        step: int,
        clip: float | None,
        loss: Tensor | None,
    ) -> StepReport:
        """Take step number `step`, or skip it if it is bad, and drop gradients. Returns the report of all ranks.

        `clip`: the gradient norm to clip to, if any. `loss`: this rank's share of the loss, if it is to be checked.
        """
        # 1. send the report of this rank while partial gradients are reduced
        measures = clip is not None or self._needs_scaling
        check = FiniteCheck(loss, () if measures else parameters_of(optimizer), self._device)
        with self._timers.reporting("device"):
            share = float(loss) if loss is not None and self._bad_steps.detects_spikes else 0.0
        consensus.begin(self._report(not_finite=check.local_result), share)
        with self._timers.during("optimizer"):
            check.start_all_reduce()
            norm = reduce_gradients_and_norm(optimizer, mesh.group("pp"), self.scale.factor) if measures else None
        # 2. receive the reports of all ranks
        with self._timers.during("agree"):
            outcome = consensus.end()
        with self._timers.reporting("device"):
            is_finite = not check.device_result() and (norm is None or bool(torch.isfinite(norm)))
        is_bad = outcome.not_finite or not is_finite
        checks_spike = not is_bad and loss is not None
        spike = self._bad_steps.find_spike(consensus.shares, mesh.degrees) if checks_spike else None
        # 3. update the parameters, or skip the step
        with self._timers.during("save"):
            self.before_update()
        with self._timers.during("optimizer"):
            if is_bad or spike is not None:
                self._skip(step, norm, spike)
            else:
                clip_and_step(optimizer, norm, clip, self.scale.factor)
                self._bad_steps.skipped = 0
            optimizer.zero_grad(set_to_none=True)
        self.scale = self.scale.after(finite=not is_bad) if self._needs_scaling else self.scale
        return replace(outcome, not_finite=is_bad)

    def _report(self, *, not_finite: bool) -> StepReport:
        """Return the report of this rank."""
        left, takes = self._requests.time_left_ms(), int(self.save_duration() * 1000)
        stops = bool(self._requests.signal_name)
        report = StepReport(stops, self.wants_save(), not_finite=not_finite, save_duration_ms=takes)
        return report if left is None else replace(report, time_left_ms=left)

    def _skip(self, step: int, norm: Tensor | None, spike: Spike | None) -> None:
        """Apply the policy for bad steps. Raises TrainError if it ends the run."""
        message = self._bad_steps.react(step, norm, spike)
        if message:
            self._warn(message)


def _no_wait() -> None:
    """Wait for nothing: no save copies parameters."""
