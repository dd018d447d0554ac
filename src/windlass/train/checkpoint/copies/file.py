"""One copy as a file in memory: what is no tensor pickled, tensors as they are, and a CRC-32 of all of it at its end.

Whoever is killed while he writes leaves a file of another name. Nothing is unpickled before its checksum is right.
"""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from windlass.train.checkpoint.staging import State, local_part
from windlass.train.checkpoint.store.errors import DamagedError

_MAGIC = b"WINDCOPY"
_HEAD = struct.Struct("<8sQ")
"""What it is, and how long the pickled part is."""
_TAIL = struct.Struct("<I8s")
_ALIGNMENT = 64
HALF = ".tmp"


def write(path: Path, state: State, told: dict[str, Any]) -> int:
    """A copy of a flattened state, whole or not at all; its bytes. `told`: what else goes along. Raises OSError."""
    tensors = {name: local_part(value) for name, value in state.items() if isinstance(value, torch.Tensor)}
    others = {name: value for name, value in state.items() if name not in tensors}
    facts = [(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in tensors.items()]
    head = pickle.dumps((told, others, facts))

    def fill(put: Callable[[Any], None]) -> None:
        put(_HEAD.pack(_MAGIC, len(head)) + head)
        at = _HEAD.size + len(head)
        for tensor in tensors.values():
            put(bytes(_gap(at)))
            put(_bytes_of(tensor))
            at += _gap(at) + tensor.nbytes

    return _written(path, fill)


def write_bytes(path: Path, data: torch.Tensor) -> None:
    """A copy as another rank has sent it. Raises DamagedError if it was changed on its way, and OSError."""
    checked(view_of(data), path.name)
    half = path.with_name(path.name + HALF)
    try:
        half.write_bytes(view_of(data))
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)


def mapped(path: Path) -> torch.Tensor:
    """The file as it lies in memory, shape (bytes,): not checked yet. Raises DamagedError, and OSError."""
    size = path.stat().st_size
    if size < _HEAD.size + _TAIL.size:
        raise DamagedError(f"{path.name} is too short")
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def unpacked(data: torch.Tensor) -> tuple[dict[str, Any], State]:
    """(what went along, the flattened state with this rank's parts of its tensors) of a copy that was checked.

    Tensors share the memory of `data`.
    """
    whole = view_of(data)
    _, size = _HEAD.unpack_from(whole)
    told, state, facts = pickle.loads(whole[_HEAD.size : _HEAD.size + size])  # noqa: S301 - this job's own, in its memory
    at = _HEAD.size + size
    for name, kind, shape in facts:
        dtype = getattr(torch, kind)
        count = dtype.itemsize * torch.Size(shape).numel()
        at += _gap(at)
        state[name] = data[at : at + count].view(dtype).reshape(shape)
        at += count
    return told, state


def checked(data: memoryview, name: str) -> None:
    """Raises DamagedError if this is not what was written."""
    if len(data) < _HEAD.size + _TAIL.size:
        raise DamagedError(f"{name} is too short")
    crc32, magic = _TAIL.unpack(data[-_TAIL.size :])
    if magic != _MAGIC or zlib.crc32(data[: -_TAIL.size]) != crc32:
        raise DamagedError(f"{name} was changed after it was written")


def view_of(data: torch.Tensor) -> memoryview:
    """The memory of a tensor of bytes."""
    return memoryview(cast(Any, data.numpy()))


def _written(path: Path, fill: Callable[[Callable[[Any], None]], None]) -> int:
    half = path.with_name(path.name + HALF)
    try:
        with half.open("wb", buffering=0) as file:
            summed = _Summed(file)
            fill(summed.put)
            file.write(_TAIL.pack(summed.crc32, _MAGIC))
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)
    return summed.size + _TAIL.size


def _gap(at: int) -> int:
    """Bytes to where a tensor may lie."""
    return -at % _ALIGNMENT


class _Summed:
    def __init__(self, file: io.RawIOBase | BinaryIO) -> None:
        self._file, self.size, self.crc32 = file, 0, 0

    def put(self, data: Any) -> None:
        """All of it, however much the system takes at once."""
        rest = memoryview(data).cast("B")
        self.crc32 = zlib.crc32(rest, self.crc32)
        self.size += len(rest)
        while rest:
            rest = rest[self._file.write(rest) :]


def _bytes_of(tensor: torch.Tensor) -> Any:
    plain = tensor.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
