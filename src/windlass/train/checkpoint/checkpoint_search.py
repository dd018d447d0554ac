"""Finds the newest complete checkpoint: ranks together read every byte before any of them loads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, run_on_first
from windlass.train.checkpoint.store.errors import CheckpointManifestError, DamagedError
from windlass.train.checkpoint.store.inventory import candidate_steps, step_mismatch
from windlass.train.checkpoint.store.layout import MANIFEST, files_of_rank, folder_of
from windlass.train.checkpoint.store.manifest import Manifest, from_json
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.verification import FileProblem, manifest_problem, verify_files

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
    there are checkpoints but none is complete, StorageError if the storage cannot be read.
    """
    steps = run_on_first(ranks, lambda: [s for s in candidate_steps(storage) if before is None or s <= before])
    skipped = []
    for step in steps:
        result = _verify_step(storage, ranks, step)
        if isinstance(result, VerifiedCheckpoint):
            return result
        if result:
            skipped.append(f"{folder_of(step)}: {_format_problems(result)}")
            if ranks.is_first:
                report(f"{storage.location}: skipping {skipped[-1]}")
    if skipped:
        raise DamagedError(
            f"{storage.location}: there is no complete checkpoint\n"
            + "\n".join(skipped)
            + "\nto start from the beginning, "
            "name another location, or remove the content of this one"
        )
    return None


def _verify_step(storage: StorageBackend, ranks: RankGroup, step: int) -> VerifiedCheckpoint | list[FileProblem]:
    """Return the checkpoint, or its problems; none for a folder that never became a checkpoint."""
    folder = folder_of(step)
    data = run_on_first(ranks, lambda: storage.read(f"{folder}/{MANIFEST}"))
    if data is None:
        return []
    try:
        manifest = from_json(data)  # every rank has the same data, and so raises the same error
    except CheckpointManifestError as error:
        return [manifest_problem(error)]
    if elsewhere := step_mismatch(manifest, step):
        return list(elsewhere)
    sizes = {name: fact.size for name, fact in manifest.files.items()}
    shares = run_on_all(
        ranks, lambda: verify_files(storage, folder, manifest, files_of_rank(sizes, ranks.rank, ranks.size))
    )
    problems = [each for share in shares for each in share]
    return problems or VerifiedCheckpoint(storage, folder, manifest)


def _format_problems(problems: list[FileProblem]) -> str:
    more = f", and {len(problems) - _MAX_PROBLEMS} more files" if len(problems) > _MAX_PROBLEMS else ""
    return "; ".join(map(str, problems[:_MAX_PROBLEMS])) + more
