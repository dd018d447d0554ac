"""Writes a state with torch's DCP into a local folder; returns size and CRC-32 of each file."""

from __future__ import annotations

import io
import os
import warnings
import zlib
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.state_dict_saver import save

from windlass.train.checkpoint.rank_group import RankGroup, run_on_all, shared_errors
from windlass.train.checkpoint.staging import StateDict
from windlass.train.checkpoint.store.manifest import OBJECT, FileFact, TensorFact
from windlass.train.checkpoint.store.storage_errors import translate_errors

warnings.filterwarnings("ignore", "torch.distributed is disabled", module=r"torch\.distributed\.checkpoint")


def write_state(
    ranks: RankGroup, state: StateDict, folder: Path, lowest_rank_names: Collection[str] = ()
) -> tuple[dict[str, FileFact], Metadata]:
    """Write the state; return this rank's files, and torch's metadata of all. A collective.

    Raises CheckpointError on all ranks alike. `lowest_rank_names`: values that may differ by rank; the lowest rank's is
    written.
    """
    writer = FileSystemWriter(folder, sync_files=False)  # `upload` syncs
    writer.fs = summing = _ChecksumFileSystem()
    with shared_errors(ranks):
        try:
            metadata = save(
                _group_by_prefix(state),
                storage_writer=writer,
                planner=_LowestRankPlanner(lowest_rank_names),
                process_group=ranks.group,
                no_dist=ranks.size == 1,
            )
        except CheckpointException:
            run_on_all(ranks, partial(summing.raise_trouble, folder))  # torch's error lacks the system's reason
            raise
    return summing.written, metadata


def write_file(folder: Path, name: str, data: bytes) -> FileFact:
    """Write one more file beside those of DCP."""
    (folder / name).write_bytes(data)
    return FileFact(len(data), zlib.crc32(data))


def tensor_facts(metadata: Metadata) -> dict[str, TensorFact]:
    """Return the tensors of a state for its manifest."""
    return {name: _fact(entry) for name, entry in metadata.state_dict_metadata.items()}


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype: "float32"."""
    return str(dtype).removeprefix("torch.")


def _group_by_prefix(state: StateDict) -> StateDict:
    """Group a flattened state by the first part of its names: torch checks, and logs, each top-level key."""
    grouped: StateDict = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        if rest and head not in state:
            grouped.setdefault(head, {})[rest] = value
        else:
            grouped[name] = value
    return grouped


def _fact(entry: Any) -> TensorFact:
    if isinstance(entry, TensorStorageMetadata):
        return TensorFact(tuple(entry.size), dtype_name(entry.properties.dtype))
    return TensorFact((), OBJECT)


class _LowestRankPlanner(DefaultSavePlanner):
    """torch's planner, in which the least loaded rank writes each copy; for named values the lowest rank does."""

    def __init__(self, lowest_rank_names: Collection[str]) -> None:
        super().__init__()
        self._firsts = frozenset(lowest_rank_names)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Build the plan from those of all ranks, lowest first."""
        taken: set[MetadataIndex] = set()
        plans = []
        for plan in all_plans:
            items = [item for item in plan.items if item.index.fqn not in self._firsts or item.index not in taken]
            taken.update(item.index for item in items)
            plans.append(replace(plan, items=items))
        return super().create_global_plan(plans)


class _ChecksumFileSystem(FileSystem):
    """torch's filesystem, with a checksum of the data that is written, not of what is read back."""

    def __init__(self) -> None:
        self.written: dict[str, FileFact] = {}
        self._trouble: OSError | None = None

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase]:
        try:
            with super().create_stream(path, mode) as raw:
                stream = _ChecksumStream(raw, self._note)
                yield stream
        except OSError as error:
            self._note(error)
            raise
        self.written[Path(path).name] = FileFact(stream.size, stream.crc32)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.written[Path(new_path).name] = self.written.pop(Path(path).name)

    def raise_trouble(self, folder: Path) -> None:
        """Raise the system's error, if there was one, as StorageError."""
        with translate_errors(str(folder.parent), f"writing {folder.name}"):
            if self._trouble:
                raise self._trouble

    def _note(self, error: OSError) -> None:
        self._trouble = self._trouble or error


class _ChecksumStream(io.IOBase):
    """A file that counts and checksums what is written, and keeps the error that torch's archives swallow."""

    def __init__(self, file: io.IOBase, note: Callable[[OSError], None]) -> None:
        self._file = file
        self._note = note
        self.size = self.crc32 = 0

    def write(self, data: Any) -> int:
        """Write all data."""
        try:
            self._file.write(data)
        except OSError as error:
            self._note(error)
            raise
        count = memoryview(data).nbytes
        self.size += count
        self.crc32 = zlib.crc32(data, self.crc32)
        return count

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Flush to the system."""
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Close the file, which flushes it."""
        self._file.close()
        super().close()
