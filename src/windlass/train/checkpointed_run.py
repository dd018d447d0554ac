"""The part of a `Run` that its checkpoints use (`run_checkpoints` and its parts), so that they do not import `run`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from windlass.train.data.batch import Batch
from windlass.train.data.loader import Loader
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.process_group import World
from windlass.train.recovery.in_place import ReinitHook
from windlass.train.step.bad_steps import BadSteps
from windlass.train.step.consensus import StepReport
from windlass.train.telemetry.phase_timers import Phase


class CheckpointedRun(Protocol):
    """The part of a `Run` that its checkpoints read, restore and report to."""

    seed: int
    steps_done: int
    bad_steps: BadSteps
    world: World

    @property
    def mesh(self) -> Mesh:
        """The mesh that the run trains on."""

    @property
    def dropout_rank(self) -> int:
        """Index of the random stream of this rank: ranks that hold the same activations share one."""

    @property
    def is_joining(self) -> bool:
        """Whether this rank receives its state from running ranks instead of a checkpoint."""

    def steps(self, data: Loader, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done."""

    def add_step_listener(
        self,
        on_step: Callable[[StepReport], None],
        wants_save: Callable[[], bool],
        save_duration: Callable[[], float],
        before_update: Callable[[], None],
    ) -> None:
        """Register the callbacks of each step."""

    def report_checkpoint_age(self, age: Callable[[], float | None]) -> None:
        """Report the age of the newest checkpoint, in seconds, with the metrics of each step."""

    def add_reinit_hook(self, hook: ReinitHook) -> None:
        """Register a hook for in-place recovery."""

    def run_unless_aborted(self, work: Callable[[], None]) -> None:
        """Run `work` unless the step is aborted."""

    def creating_groups(self) -> contextlib.AbstractContextManager[None]:
        """Context in which process groups are created."""

    def during(self, phase: Phase) -> contextlib.AbstractContextManager[None]:
        """Context that counts as `phase` of the step."""

    def print(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Print a line on the first rank."""
