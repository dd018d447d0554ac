"""Reads and writes a replica as a file in memory: pickled values, raw tensors, and a CRC-32 of everything at its end.

A killed writer leaves a file with another suffix. Nothing is unpickled before the checksum is verified, and the proof
that a rank of this gang has pickled it (`authentication`). The tensors have the checksum alone.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from windlass.train import authentication
from windlass.train.checkpoint.staging import StateDict, local_part
from windlass.train.checkpoint.store.errors import DamagedError

_MAGIC = b"WINDCOPY"
_HEADER = struct.Struct("<8sQ")
"""Magic bytes, and length of the pickled part."""
_TRAILER = struct.Struct("<I8s")
_ALIGNMENT = 64
PARTIAL_SUFFIX = ".tmp"


def write_replica(path: Path, state: StateDict, extra: dict[str, Any]) -> int:
    """Write a flattened state, whole or not at all; return its bytes. `extra`: further values. Raises OSError."""
    tensors = {name: local_part(value) for name, value in state.items() if isinstance(value, torch.Tensor)}
    others = {name: value for name, value in state.items() if name not in tensors}
    facts = [(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in tensors.items()]
    head = authentication.dumps((extra, others, facts))

    def fill(put: Callable[[Any], None]) -> None:
        put(_HEADER.pack(_MAGIC, len(head)) + head)
        at = _HEADER.size + len(head)
        for tensor in tensors.values():
            put(bytes(_padding(at)))
            put(_tensor_bytes(tensor))
            at += _padding(at) + tensor.nbytes

    return _write_sealed(path, fill)


def write_bytes(path: Path, data: torch.Tensor) -> None:
    """Write a replica that another rank sent. Raises DamagedError if it was altered in transit, and OSError."""
    verify(bytes_view(data), path.name)
    half = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        half.write_bytes(bytes_view(data))
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)


def map_file(path: Path) -> torch.Tensor:
    """Map the file into memory, shape (bytes,), without verification. Raises DamagedError, and OSError."""
    size = path.stat().st_size
    if size < _HEADER.size + _TRAILER.size:
        raise DamagedError(f"{path.name} is too short")
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def unpack(data: torch.Tensor) -> tuple[dict[str, Any], StateDict]:
    """Return (further values, the flattened state with this rank's parts of its tensors) of a verified replica.

    Tensors share the memory of `data`.
    """
    head = _pickled_part(bytes_view(data))
    extra, state, facts = authentication.loads(head)
    at = _HEADER.size + len(head)
    for name, kind, shape in facts:
        dtype = getattr(torch, kind)
        count = dtype.itemsize * torch.Size(shape).numel()
        at += _padding(at)
        state[name] = data[at : at + count].view(dtype).reshape(shape)
        at += count
    return extra, state


def verify(data: memoryview, name: str) -> None:
    """Raise DamagedError unless length, magic bytes and checksum are right, and a rank of this gang has written it."""
    if len(data) < _HEADER.size + _TRAILER.size:
        raise DamagedError(f"{name} is too short")
    crc32, magic = _TRAILER.unpack(data[-_TRAILER.size :])
    if magic != _MAGIC or zlib.crc32(data[: -_TRAILER.size]) != crc32:
        raise DamagedError(f"{name} was changed after it was written")
    try:
        authentication.verify(_pickled_part(data))
    except authentication.ForgedError as error:
        raise DamagedError(f"{name} was not written by a rank of this gang") from error


def _pickled_part(data: memoryview) -> bytes:
    _, size = _HEADER.unpack_from(data)
    return bytes(data[_HEADER.size : _HEADER.size + size])


def bytes_view(data: torch.Tensor) -> memoryview:
    """Return the memory of a tensor of bytes."""
    return memoryview(cast(Any, data.numpy()))


def _write_sealed(path: Path, fill: Callable[[Callable[[Any], None]], None]) -> int:
    half = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        with half.open("wb", buffering=0) as file:
            summed = _ChecksumFile(file)
            fill(summed.put)
            file.write(_TRAILER.pack(summed.crc32, _MAGIC))
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)
    return summed.size + _TRAILER.size


def _padding(at: int) -> int:
    """Return the number of bytes up to the next alignment."""
    return -at % _ALIGNMENT


class _ChecksumFile:
    """A file that counts and checksums what is written."""

    def __init__(self, file: io.RawIOBase | BinaryIO) -> None:
        self._file, self.size, self.crc32 = file, 0, 0

    def put(self, data: Any) -> None:
        """Write all of it, in as many calls as the system needs."""
        rest = memoryview(data).cast("B")
        self.crc32 = zlib.crc32(rest, self.crc32)
        self.size += len(rest)
        while rest:
            rest = rest[self._file.write(rest) :]


def _tensor_bytes(tensor: torch.Tensor) -> Any:
    plain = tensor.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b""
