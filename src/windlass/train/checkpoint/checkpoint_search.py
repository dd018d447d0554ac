"""Finds the newest complete checkpoint: ranks together read every byte before any of them loads it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, run_on_first
from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.backoff import becomes_true
from windlass.train.checkpoint.store.errors import (
    CheckpointManifestError,
    DamagedError,
    NewerFormatError,
    StorageUnusableError,
)
from windlass.train.checkpoint.store.inventory import candidate_keys, step_mismatch
from windlass.train.checkpoint.store.layout import MANIFEST, CheckpointKey, files_of_rank
from windlass.train.checkpoint.store.manifest import Manifest
from windlass.train.checkpoint.store.reader_lease import hold_for_reading
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.verification import FileProblem, manifest_problem, parse_manifest, verify_files

Report = Callable[[str], None]
_MAX_PROBLEMS = 3


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoint:
    """A checkpoint whose every byte was read and verified."""

    storage: StorageBackend
    folder: str
    manifest: Manifest


def find_newest_good(
    storage: StorageBackend, ranks: RankGroup, *, report: Report = print, before: int | None = None
) -> VerifiedCheckpoint | None:
    """Return the newest complete checkpoint of a step up to `before`; None where no checkpoint was ever made.

    A collective. Each rank reads its share of the files; rank 0 reports why one was passed over. Raises DamagedError if
    there are checkpoints but none is complete, StorageError if the storage cannot be read. Nothing keeps the checkpoint
    from being removed afterwards, unless this run holds the lease of the storage: see `read_newest_good`.
    """
    with read_newest_good(storage, ranks, report=report, before=before) as found:
        return found


@contextmanager
def read_newest_good(
    storage: StorageBackend, ranks: RankGroup, *, report: Report = print, before: int | None = None
) -> Iterator[VerifiedCheckpoint | None]:
    """Find the newest complete checkpoint as `find_newest_good`; no run removes it before the context ends."""
    keys = run_on_first(ranks, lambda: [key for key in candidate_keys(storage) if before is None or key.step <= before])
    skipped = []
    for key in keys:
        with _leased(storage, ranks, key, report) as data:
            result = _verify(storage, ranks, key, data)
            if isinstance(result, VerifiedCheckpoint):
                yield result
                return
        if result:
            skipped.append(f"{key.folder}: {_format_problems(result)}")
            if ranks.is_first:
                report(f"{storage.location}: skipping {skipped[-1]}")
    if skipped:
        raise DamagedError(
            f"{storage.location}: there is no complete checkpoint\n"
            + "\n".join(skipped)
            + "\nto start from the beginning, "
            "name another location, or remove the content of this one"
        )
    yield None


@contextmanager
def _leased(storage: StorageBackend, ranks: RankGroup, key: CheckpointKey, report: Report) -> Iterator[bytes | None]:
    """Hold the lease of a reader on rank 0. Yields the manifest on all ranks; None if the checkpoint is removed."""
    with contextlib.ExitStack() as stack:

        def read() -> bytes | None:
            is_there = stack.enter_context(hold_for_reading(storage, key.folder, report))
            return storage.read(f"{key.folder}/{MANIFEST}") if is_there else None

        yield run_on_first(ranks, read)


def _verify(
    storage: StorageBackend, ranks: RankGroup, key: CheckpointKey, data: bytes | None
) -> VerifiedCheckpoint | list[FileProblem]:
    """Return the checkpoint, or its problems; none for a folder that never became a checkpoint."""
    if data is None:
        return []
    try:
        manifest = parse_manifest(storage, key.folder, data)  # equal data, and so equal errors, on all ranks
    except NewerFormatError:
        raise
    except CheckpointManifestError as error:
        return [manifest_problem(error)]
    if elsewhere := step_mismatch(manifest, key.step):
        return list(elsewhere)
    _wait_until_visible(storage, ranks, key.folder)
    sizes = {name: fact.size for name, fact in manifest.files.items()}
    shares = run_on_all(
        ranks, lambda: verify_files(storage, key.folder, manifest, files_of_rank(sizes, ranks.rank, ranks.size))
    )
    problems = [each for share in shares for each in share]
    return problems or VerifiedCheckpoint(storage, key.folder, manifest)


def _wait_until_visible(storage: StorageBackend, ranks: RankGroup, folder: str) -> None:
    """Wait until each rank sees the checkpoint that rank 0 has found. A collective. Raises StorageUnusableError.

    A network filesystem may show it on other nodes as late as a lease lasts. Without the wait its files count as
    missing, and the run continues from an older checkpoint.
    """

    def is_visible() -> bool:
        return ranks.is_first or storage.read(f"{folder}/{MANIFEST}") is not None

    seen = run_on_all(ranks, lambda: becomes_true(is_visible, lease.DURATION_S))
    if unseen := [str(rank) for rank, is_seen in enumerate(seen) if not is_seen]:
        raise StorageUnusableError(
            f"{storage.location}: {folder} is not visible to rank {', '.join(unseen)} within {lease.DURATION_S:.0f} s\n"
            "all nodes must share the folder; or use an object store (s3://bucket/run)"
        )


def _format_problems(problems: list[FileProblem]) -> str:
    more = f", and {len(problems) - _MAX_PROBLEMS} more files" if len(problems) > _MAX_PROBLEMS else ""
    return "; ".join(map(str, problems[:_MAX_PROBLEMS])) + more
