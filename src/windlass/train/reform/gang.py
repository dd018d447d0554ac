"""What a run does when ranks are lost: it goes on as one of those that are there, from the step that nobody finished.

    a collective breaks ──▶ the step is void ──▶ a membership ──▶ let go ──▶ join ──▶ have the state ──▶ again

Ranks that are started in the place of lost ones come along the same way: they make the same groups in the same order,
and have the state from those that go on instead of from a checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Protocol

import torch

from windlass import wire
from windlass.train import process
from windlass.train.checkpoint.store.errors import RankGoneError
from windlass.train.data.loader import Data
from windlass.train.data.stream import Stream
from windlass.train.health.spike import Recent
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel.model import ParallelModel
from windlass.train.reform.connections import Connections
from windlass.train.reform.instant import Instant
from windlass.train.reform.sharing import giver, sent, share, share_small
from windlass.train.reform.survival import Survival
from windlass.train.state import Stateful
from windlass.train.telemetry.heart import Heart

_MOST = 50
"""Generations that one process enters: each leaves nine descriptors and six threads of groups that are never freed. The
next loss starts all anew, which frees them."""


class Companion(Protocol):
    """Something of a run that has process groups of its own."""

    def let_go(self) -> None:
        """Its ranks are gone, and its connections cut. Nobody is asked."""

    def join(self) -> None:
        """Make groups of all ranks anew: the ones that a rank makes which has just been started, in the same order."""

    def met(self) -> None:
        """All ranks have the same state now, those too that have just been started. A collective."""


class RecoverableRun(Stateful, Protocol):
    """The part of a `Run` that in-place recovery reads and rebuilds."""

    steps_done: int
    skipped: int
    recent: Recent
    go_back: str
    world: process.World

    @property
    def mesh(self) -> Mesh:
        """The mesh of the current generation."""

    def join(self) -> None:
        """Create the process groups and the mesh of the generation that the environment describes. A collective."""

    def cut_anew(self, data: Data | Stream) -> None:
        """Assign to `data` the slice of each batch that this rank reads on the current mesh."""


class Gang:
    """This rank among others, who may change. `models` to `companions` are what a run has."""

    def __init__(self, run: RecoverableRun, heart: Heart, survival: Survival, connections: Connections) -> None:
        self._run, self._heart, self._survival, self._connections = run, heart, survival, connections
        self.models: list[ParallelModel] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.more: Mapping[str, Stateful] = {}
        self.companions: list[Companion] = []
        self._instant = Instant((), (), {})
        self._entered = 0

    def begin(self, data: Data | Stream) -> None:
        """The loop begins: have the state of those that go on, if there are any; and be one of those from now on."""
        self._instant = Instant(self.models, self.optimizers, self.more)
        if self._survival.joins:
            self._heart.count_anew()
            self._meet(data)
        self._survival.begin(able=self._can_go_on)

    def keep(self) -> None:
        """A step begins."""
        if self._survival.is_able:
            self._instant.keep()

    def go_on(self, data: Data | Stream, *, again: bool) -> None:
        """Be a rank of the next generation; and of the one after that, if more are lost meanwhile.

        `again`: the step that was begun is to be repeated, as far as this rank knows.
        """
        if again:
            self._instant.restore()
        while self._survival.is_void:
            membership = self._heart.next_membership()
            assert membership is not None  # noqa: S101 - a step is void because there is one
            with self._survival.survived():
                self._enter(membership, data)

    @property
    def _can_go_on(self) -> bool:
        """Each rank has all of the state, and what a step changes early is small. Errors of NCCL are not survived."""
        mesh, world = self._run.mesh, self._run.world
        replicates = mesh.degrees.size == mesh.degrees.dp and world.device.type == "cpu"
        return replicates and bool(self.models) and process.has_agent_store() and self._instant.is_small

    def _enter(self, membership: wire.Membership, data: Data | Stream) -> None:
        began = time.perf_counter()
        self._heart.enter(membership)
        self._connections.cut()
        for model in self.models:
            model.let_go()
        for companion in self.companions:
            companion.let_go()
        process.leave()
        let_go = time.perf_counter()
        os.environ.update(variables_of(membership))
        self._run.join()
        for model in self.models:
            model.join(self._run.mesh)
        for companion in self.companions:
            companion.join()
        joined = time.perf_counter()
        gives = self._meet(data)
        self._run.cut_anew(data)
        self._survival.begin(able=True)
        self._entered += 1
        if self._entered == _MOST:
            self._survival.end()
        if gives:
            state = time.perf_counter() - joined
            sys.stderr.write(
                f"windlass: generation {membership.generation} ({_ranks(self._run.world.size)}) goes on after step "
                f"{self._run.steps_done}: let go {let_go - began:.2f} s, joined {joined - let_go:.2f} s, "
                f"state {state:.2f} s\n"
            )

    def _meet(self, data: Data | Stream) -> bool:
        """Have the state of the rank that has done most. Returns whether that is this one. A collective.

        Raises RankGoneError if none has any.
        """
        run = self._run
        run.go_back = ""
        control = run.world.control
        found = giver(control, None if self._survival.joins else run.steps_done)
        if found is None:
            raise RankGoneError("all ranks that had the state are gone")
        if found.is_needed:
            share(control, found.rank, [model.module for model in self.models], self.optimizers)
        # Also where all have done as many steps: a script may have stepped a schedule on a loss that one has missed.
        share_small(control, found.rank, {"run": run, "data": data, **self.more}, self.optimizers)
        losses, run.skipped = sent(control, found.rank, (list(run.recent.losses), run.skipped))
        run.recent = Recent(losses)
        for companion in self.companions:
            companion.met()
        return found.rank == run.world.rank


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def variables_of(membership: wire.Membership) -> dict[str, str]:
    """To be laid over those that the rank was started with."""
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
