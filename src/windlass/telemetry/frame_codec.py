"""Compact form of frames: one for the newest frame of a scope, another for a block of older ones.

A block keeps each series as one column, its bytes grouped by their place in the number, and is compressed: bytes of the
same place of successive measurements differ little (the shuffle filter of HDF5 and Blosc).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
import numpy as np

from windlass.telemetry.frames import MetricFrame, Vector

_LEVEL = 6
_MAX_BLOCK_BYTES = 256 << 20
"""Bytes of a decompressed block: a damaged file cannot fill the memory."""


class _Column(msgspec.Struct, array_like=True):
    """One series of a block: the index of the first frame that has it, its width, and its values as float32."""

    series: str
    frames: bytes
    """Indices of the frames that have the series, as uint16."""
    width: int
    data: bytes


class _Block(msgspec.Struct, array_like=True):
    times: bytes
    """As int64."""
    columns: list[_Column]


class CodecError(ValueError):
    """Stored bytes are no frames."""


def encode_frames(frames: Sequence[MetricFrame]) -> bytes:
    """Encodes up to 65,535 frames of one scope, in order of their times."""
    names = sorted({name for frame in frames for name in frame.values})
    columns = [column for name in names for column in _columns(name, frames)]
    times = np.array([frame.time for frame in frames], dtype=np.int64)
    return zlib.compress(msgspec.msgpack.encode(_Block(times.tobytes(), columns)), _LEVEL)


def _columns(name: str, frames: Sequence[MetricFrame]) -> list[_Column]:
    """One column for each width that the series has in these frames: an elastic job changes its ranks."""
    widths: dict[int, list[int]] = {}
    for index, frame in enumerate(frames):
        if name in frame.values:
            widths.setdefault(len(frame.values[name]), []).append(index)
    found = []
    for width, indices in widths.items():
        values = np.stack([frames[index].values[name] for index in indices]).astype("<f4")
        found.append(_Column(name, np.array(indices, dtype="<u2").tobytes(), width, _shuffle(values)))
    return found


def decode_frames(scope: str, data: bytes) -> list[MetricFrame]:
    """Inverse of `encode_frames`. Raises CodecError."""
    try:
        unpacked = zlib.decompressobj().decompress(data, _MAX_BLOCK_BYTES)
        block = msgspec.msgpack.decode(unpacked, type=_Block)
        times = np.frombuffer(block.times, dtype="<i8")
        values: list[dict[str, Vector]] = [{} for _ in times]
        for column in block.columns:
            indices = np.frombuffer(column.frames, dtype="<u2")
            rows = _unshuffle(column.data).reshape(len(indices), column.width)
            for index, row in zip(indices.tolist(), rows, strict=True):
                values[index][column.series] = row
    except (zlib.error, msgspec.MsgspecError, ValueError, IndexError) as error:
        raise CodecError(f"not a block of frames: {error}") from error
    return [MetricFrame(scope, time, found) for time, found in zip(times.tolist(), values, strict=True)]


def _shuffle(values: Vector) -> bytes:
    """First bytes of all values, then the second bytes, and so on, in order of the columns of `values`."""
    return np.ascontiguousarray(values.T).reshape(-1).view(np.uint8).reshape(-1, 4).T.tobytes() + bytes(
        np.array(values.shape, dtype="<u4").tobytes()
    )


def _unshuffle(data: bytes) -> Vector:
    """Inverse of `_shuffle`, as a flat array in order of rows."""
    rows, columns = np.frombuffer(data[-8:], dtype="<u4").tolist()
    flat = np.frombuffer(data[:-8], dtype=np.uint8).reshape(4, rows * columns).T
    restored = np.ascontiguousarray(flat).view("<f4").reshape(columns, rows).T
    return np.ascontiguousarray(restored, dtype=np.float32).reshape(-1)
