"""torch's pipeline stage, but that finding out shapes draws no random numbers.

Before its first step a stage runs once to see the shapes of what it passes on. Dropout in it would move this rank's
generator, and a run that was started again would draw other numbers than one that was not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage


class Stage(PipelineStage):
    """One stage of a model on this rank."""

    def _prepare_forward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_forward_infra(*given, **named)

    def _prepare_backward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_backward_infra(*given, **named)

    def _generators_kept(self) -> Any:
        return torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else [])
