"""Writes, checks and commits one checkpoint from a copy of the state, in the background thread of every rank.

Every rank takes the same steps in the same order, and learns the errors of all ranks after each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, run_on_first
from windlass.train.checkpoint.shared_lease import SharedLease
from windlass.train.checkpoint.staging import StateDict
from windlass.train.checkpoint.state_loader import rng_file_name
from windlass.train.checkpoint.state_writer import tensor_facts, write_file, write_state
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.inventory import candidate_keys
from windlass.train.checkpoint.store.layout import LATEST, CheckpointKey, folder_of
from windlass.train.checkpoint.store.manifest import FileFact, Manifest, to_json
from windlass.train.checkpoint.store.reader_lease import CheckpointRemover
from windlass.train.checkpoint.store.retention import Retention, keys_to_prune
from windlass.train.checkpoint.store.storage import StorageBackend


class SaveCost(NamedTuple):
    """Cost of a save on this rank: seconds that training waited, seconds until it was good, bytes of all ranks."""

    stall: float
    duration: float
    size: int
    cleanup_error: str = ""
    """Error of removing older checkpoints or of writing `LATEST`; the checkpoint itself is good."""


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """A save as one rank starts it. `generators` and the source of `state` are captured before training continues."""

    step: int
    samples: int
    mesh: str
    facts: Mapping[str, Any]
    generators: bytes
    state: Future[StateDict]
    begun: float
    lowest_rank_names: tuple[str, ...] = ()
    """Names of values that a forward pass changes, differently on each rank."""


class CheckpointWriter:
    """Writes the checkpoints of one storage. `rank_name`: the rank's coordinates, for its generators.

    Under the lease: it is checked before files are written, before the commit, and before anything is removed.
    """

    def __init__(
        self, storage: StorageBackend, ranks: RankGroup, lease: SharedLease, keep: Retention, rank_name: str
    ) -> None:
        self._storage, self._ranks, self._lease = storage, ranks, lease
        self._keep, self._rank_name = keep, rank_name
        self.remover = CheckpointRemover(storage)
        """Removes checkpoints and stale marks of this storage."""

    def write(self, request: SaveRequest, after: int | None) -> SaveCost:
        """Write and commit a checkpoint, and remove older ones. `after`: the last saved step; None: there is none."""
        folder = folder_of(request.step, self._lease.token)
        try:
            manifest = self._write_and_upload(request, folder, after)
            sizes = {name: fact.size for name, fact in manifest.files.items()}
            run_on_first(self._ranks, lambda: self._commit(folder, to_json(manifest), sizes))
        except BaseException:
            if self._ranks.is_first:
                with contextlib.suppress(CheckpointError):
                    self._storage.discard(folder)
            raise
        cleanup_error = ""
        try:
            run_on_first(self._ranks, lambda: self._clean_up(folder, after))
        except Exception as error:  # noqa: BLE001 - the checkpoint is committed, whatever happens to older ones
            cleanup_error = str(error)
        return SaveCost(0.0, time.monotonic() - request.begun, manifest.size, cleanup_error)

    def _write_and_upload(self, request: SaveRequest, folder: str, after: int | None) -> Manifest:
        """Write and upload the files of all ranks; return the manifest, which is not committed yet."""
        storage, ranks = self._storage, self._ranks
        lowest_rank_names = {name for part in run_on_all(ranks, lambda: _copied_names(request)) for name in part}
        run_on_first(ranks, lambda: self._prepare(folder, after))
        staging = run_on_all(ranks, lambda: storage.staging_directory(folder, ranks.rank))[ranks.rank]
        try:
            files, metadata = write_state(ranks, request.state.result(), staging, lowest_rank_names)
            parts = run_on_all(ranks, lambda: self._upload(request, folder, staging, files))
        finally:
            storage.release_staging(staging)
        return Manifest(
            step=request.step,
            samples=request.samples,
            mesh=request.mesh,
            world=ranks.size,
            saved_at=time.time_ns() // 1_000_000,
            files={name: FileFact(*fact) for part in parts for name, fact in part.items()},
            tensors=tensor_facts(metadata),
            facts=request.facts,
        )

    def _upload(
        self, request: SaveRequest, folder: str, staging: Path, files: dict[str, FileFact]
    ) -> dict[str, FileFact]:
        """Upload this rank's files, including its generators."""
        name = rng_file_name(self._rank_name)
        files = {**files, name: write_file(staging, name, request.generators)}
        self._storage.upload(folder, staging, {name: fact.size for name, fact in files.items()})
        return files

    def _prepare(self, folder: str, after: int | None) -> None:
        """Remove what failed saves have left under this lease, so that no name is written twice."""
        self._lease.check()
        for key in candidate_keys(self._storage):
            if key.token == self._lease.token and _is_after(key, after):
                self._storage.remove(key.folder)
        self._storage.discard(folder)

    def _commit(self, folder: str, manifest: bytes, sizes: Mapping[str, int]) -> None:
        self._lease.check()
        try:
            self._storage.commit(folder, manifest, sizes)
        except CheckpointError:
            self._lease.check()  # the next holder has removed the unfinished files
            raise

    def _clean_up(self, folder: str, after: int | None) -> None:
        """Update `LATEST`, and remove obsolete checkpoints and those beyond the retention; the new one is good already.

        Obsolete: of earlier leases, and newer than the step that this run has continued from. A checkpoint that a
        process reads stays until a later save. The first error is raised after everything was tried: on a full disk
        removing is the remedy.
        """
        self._lease.check()
        found = [key for key in candidate_keys(self._storage) if key.token <= self._lease.token]
        obsolete = [key for key in found if key.token < self._lease.token and _is_after(key, after)]
        unwanted = [*obsolete, *keys_to_prune(set(found) - set(obsolete), self._keep)]
        tasks: list[Callable[[], object]] = [partial(self._storage.write, LATEST, f"{folder}\n".encode())]
        tasks += [self.remover.remove_stale_marks, *(partial(self.remover.remove, key.folder) for key in unwanted)]
        errors = []
        for task in tasks:
            try:
                task()
            except CheckpointError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _is_after(key: CheckpointKey, after: int | None) -> bool:
    return key.step > (-1 if after is None else after)


def _copied_names(request: SaveRequest) -> tuple[str, ...]:
    """Return the names that differ by rank; raise the error of the copy."""
    request.state.result()
    return request.lowest_rank_names
