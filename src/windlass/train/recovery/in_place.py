"""In-place recovery: the run continues on the ranks of the next membership and repeats the aborted step.

collective fails ──▶ step aborted ──▶ membership ──▶ release groups ──▶ rejoin ──▶ state broadcast ──▶ repeat

Ranks that are started in place of lost ones take the same path: they create the same groups in the same order, and
receive the state from a running rank instead of from a checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Protocol

import torch

from windlass import wire
from windlass.train import process_group
from windlass.train.checkpoint.store.errors import RankGoneError
from windlass.train.data.loader import Loader
from windlass.train.health.loss_spike import LossWindow
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel.model import ParallelModel
from windlass.train.recovery.connections import GroupConnections
from windlass.train.recovery.peer_loss import PeerLossGuard
from windlass.train.recovery.state_broadcast import (
    broadcast_object,
    broadcast_small_state,
    broadcast_tensors,
    elect_source,
)
from windlass.train.recovery.step_snapshot import StepSnapshot
from windlass.train.step.bad_steps import BadSteps
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.training_state import Stateful

_MAX_GENERATIONS = 50
"""Maximum number of generations of one process. Each leaves nine descriptors and six threads of groups that are never
freed; the next loss restarts all ranks, which frees them."""


class ReinitHook(Protocol):
    """A part of a run that has process groups of its own, such as its checkpoints."""

    def release_groups(self) -> None:
        """Release the groups of lost ranks, whose connections are closed. Not a collective."""

    def create_groups(self) -> None:
        """Create the groups of all ranks again, in the same order in which a new rank creates them."""

    def restore(self) -> None:
        """Continue after all ranks, new ones included, have the same state. A collective."""


class RecoverableRun(Stateful, Protocol):
    """The part of a `Run` that in-place recovery reads and rebuilds."""

    steps_done: int
    bad_steps: BadSteps
    world: process_group.World

    @property
    def mesh(self) -> Mesh:
        """The mesh of the current generation."""

    def rejoin(self) -> None:
        """Create the process groups and the mesh of the generation that the environment describes. A collective."""

    def reassign_data(self, data: Loader) -> None:
        """Assign to `data` the slice of each batch that this rank reads on the current mesh."""


class InPlaceRecovery:
    """Recovers one rank in place. `models`, `optimizers`, `extra_state` and `reinit_hooks` are the parts of its run."""

    def __init__(
        self, run: RecoverableRun, heartbeat: HeartbeatSender, peer_loss: PeerLossGuard, connections: GroupConnections
    ) -> None:
        self._run, self._heartbeat, self._peer_loss, self._connections = run, heartbeat, peer_loss, connections
        self.models: list[ParallelModel] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.extra_state: Mapping[str, Stateful] = {}
        self.reinit_hooks: list[ReinitHook] = []
        self._snapshot = StepSnapshot((), (), {})
        self._generations = 0

    def start(self, data: Loader) -> None:
        """Start the loop: receive the state of running ranks, if any, and enable recovery from now on."""
        self._snapshot = StepSnapshot(self.models, self.optimizers, self.extra_state)
        if self._peer_loss.is_joining:
            self._heartbeat.reset_count()
            self._sync_state(data)
        self._peer_loss.resume(enabled=self._can_recover)

    def take_snapshot(self) -> None:
        """Take a snapshot at the start of a step."""
        if self._peer_loss.is_enabled:
            self._snapshot.take()

    def recover(self, data: Loader, *, is_aborted: bool) -> None:
        """Join the next generation, and the one after it if more ranks are lost meanwhile.

        `is_aborted`: whether the current step has to be repeated, as far as this rank knows.
        """
        if is_aborted:
            self._snapshot.restore()
        while self._peer_loss.is_aborted:
            membership = self._heartbeat.next_membership()
            assert membership is not None  # noqa: S101 - an aborted step has a membership
            with self._peer_loss.catch():
                self._enter_generation(membership, data)

    @property
    def _can_recover(self) -> bool:
        """Whether each rank holds the whole state and its early changes are small. NCCL errors cannot be recovered."""
        mesh, world = self._run.mesh, self._run.world
        replicates = mesh.degrees.size == mesh.degrees.dp and world.device.type == "cpu"
        return replicates and bool(self.models) and process_group.has_agent_store() and self._snapshot.is_small

    def _enter_generation(self, membership: wire.Membership, data: Loader) -> None:
        began = time.perf_counter()
        self._heartbeat.enter(membership)
        self._connections.shut_down()
        for model in self.models:
            model.release_groups()
        for hook in self.reinit_hooks:
            hook.release_groups()
        process_group.leave()
        released = time.perf_counter()
        os.environ.update(torchrun_variables(membership))
        self._run.rejoin()
        for model in self.models:
            model.replicate_on(self._run.mesh)
        for hook in self.reinit_hooks:
            hook.create_groups()
        joined = time.perf_counter()
        is_source = self._sync_state(data)
        self._run.reassign_data(data)
        self._peer_loss.resume(enabled=True)
        self._generations += 1
        if self._generations == _MAX_GENERATIONS:
            self._peer_loss.disable()
        if is_source:
            state = time.perf_counter() - joined
            sys.stderr.write(
                f"windlass: generation {membership.generation} ({_format_ranks(self._run.world.size)}) resumes after "
                f"step {self._run.steps_done}: release {released - began:.2f} s, join {joined - released:.2f} s, "
                f"state {state:.2f} s\n"
            )

    def _sync_state(self, data: Loader) -> bool:
        """Receive the state of the rank with most steps done. Returns whether that is this rank. A collective.

        Raises RankGoneError if no rank has a state.
        """
        run = self._run
        run.bad_steps.rollback_reason = ""
        control = run.world.control
        source = elect_source(control, None if self._peer_loss.is_joining else run.steps_done)
        if source is None:
            raise RankGoneError("all ranks with the state are lost")
        if source.is_needed:
            broadcast_tensors(control, source.rank, [model.module for model in self.models], self.optimizers)
        # Needed also after equal step counts: a script may have stepped a schedule on a loss that one rank has missed.
        broadcast_small_state(control, source.rank, {"run": run, "data": data, **self.extra_state}, self.optimizers)
        bad_steps = run.bad_steps
        counts = list(bad_steps.loss_window.losses), bad_steps.skipped
        losses, bad_steps.skipped = broadcast_object(control, source.rank, counts)
        bad_steps.loss_window = LossWindow(losses)
        for hook in self.reinit_hooks:
            hook.restore()
        return source.rank == run.world.rank


def _format_ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def torchrun_variables(membership: wire.Membership) -> dict[str, str]:
    """Return torchrun's variables for the new membership, which replace those that the rank was started with."""
    world = str(sum(member.ranks for member in membership.members))
    return {
        "RANK": str(membership.rank),
        "WORLD_SIZE": world,
        "GROUP_RANK": str(membership.me),
        "GROUP_WORLD_SIZE": str(len(membership.members)),
        "ROLE_RANK": str(membership.rank),
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": membership.address or membership.members[0].address,
        "MASTER_PORT": str(membership.port),
        "TORCHELASTIC_RESTART_COUNT": str(membership.generation - 1),
        wire.GENERATION: str(membership.generation),
    }
