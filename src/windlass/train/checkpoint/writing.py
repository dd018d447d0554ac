"""Writing a state with torch's DCP into a folder of this machine; the size and CRC-32 of each file that was written."""

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

from windlass.train.checkpoint.staging import State
from windlass.train.checkpoint.store.manifest import OBJECT, FileFact, TensorFact
from windlass.train.checkpoint.store.trouble import told
from windlass.train.checkpoint.together import Ranks, hearing, together

warnings.filterwarnings("ignore", "torch.distributed is disabled", module=r"torch\.distributed\.checkpoint")


def write_state(
    ranks: Ranks, state: State, folder: Path, firsts: Collection[str] = ()
) -> tuple[dict[str, FileFact], Metadata]:
    """This rank's files, and what all wrote together. A collective. Raises CheckpointError on all ranks alike.

    `firsts`: names of which ranks may hold copies that differ, and the lowest rank's is written.
    """
    writer = FileSystemWriter(folder, sync_files=False)  # `deliver` syncs
    writer.fs = summing = _Summing()
    with hearing(ranks):
        try:
            metadata = save(
                _grouped(state),
                storage_writer=writer,
                planner=_LowestRankFirst(firsts),
                process_group=ranks.group,
                no_dist=ranks.size == 1,
            )
        except CheckpointException:
            together(ranks, partial(summing.raise_trouble, folder))  # torch has lost the system's words
            raise
    return summing.written, metadata


def write_file(folder: Path, name: str, data: bytes) -> FileFact:
    """One more file beside those of DCP."""
    (folder / name).write_bytes(data)
    return FileFact(len(data), zlib.crc32(data))


def tensors_in(metadata: Metadata) -> dict[str, TensorFact]:
    """What a manifest tells of the state."""
    return {name: _fact(entry) for name, entry in metadata.state_dict_metadata.items()}


def dtype_name(dtype: Any) -> str:
    """ "float32"."""
    return str(dtype).removeprefix("torch.")


def _grouped(state: State) -> State:
    """A flattened state by the first part of its names: torch looks at each of the topmost, and logs that twice."""
    grouped: State = {}
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


class _LowestRankFirst(DefaultSavePlanner):
    """torch's own, which has copies written by whoever has least to write: any copy will do, but for a few names."""

    def __init__(self, firsts: Collection[str]) -> None:
        super().__init__()
        self._firsts = frozenset(firsts)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Of all ranks, lowest first."""
        taken: set[MetadataIndex] = set()
        plans = []
        for plan in all_plans:
            items = [item for item in plan.items if item.index.fqn not in self._firsts or item.index not in taken]
            taken.update(item.index for item in items)
            plans.append(replace(plan, items=items))
        return super().create_global_plan(plans)


class _Summing(FileSystem):
    """torch's own, with a checksum made of what goes to the disk, not of what comes back from it."""

    def __init__(self) -> None:
        self.written: dict[str, FileFact] = {}
        self._trouble: OSError | None = None

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase]:
        try:
            with super().create_stream(path, mode) as raw:
                stream = _Summed(raw, self._note)
                yield stream
        except OSError as error:
            self._note(error)
            raise
        self.written[Path(path).name] = FileFact(stream.size, stream.crc32)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.written[Path(new_path).name] = self.written.pop(Path(path).name)

    def raise_trouble(self, folder: Path) -> None:
        """What the system said, if it said anything. Raises PlaceError."""
        with told(str(folder.parent), f"writing {folder.name}"):
            if self._trouble:
                raise self._trouble

    def _note(self, error: OSError) -> None:
        self._trouble = self._trouble or error


class _Summed(io.IOBase):
    """A file that counts and sums what is written to it, and keeps the error that torch's archives swallow."""

    def __init__(self, file: io.IOBase, note: Callable[[OSError], None]) -> None:
        self._file = file
        self._note = note
        self.size = self.crc32 = 0

    def write(self, data: Any) -> int:
        """All of it."""
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
        """Bytes so far."""
        return self.size

    def flush(self) -> None:
        """To the system."""
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        """Whatever is still held back goes out."""
        self._file.close()
        super().close()
