"""Proves by the gang's secret that bytes come from a rank of this gang: pickled objects, replicas, failure reports.

Unpickling runs code of the sender's choice, while torch authenticates neither its store nor the connections of gloo:
every process that reaches their ports can take the place of a rank. An HMAC-SHA256 under the gang's secret therefore
precedes such bytes, and is verified before they are read. Without a secret (`WINDLASS_GANG_SECRET`) the format is the
same, and proves nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import pickle
from typing import IO, Any

from torch.distributed import distributed_c10d

from windlass import wire

_CONTEXT = b"windlass-rank-1 "
_TAG_BYTES = hashlib.sha256().digest_size


class ForgedError(RuntimeError):
    """Bytes that no rank of this gang has signed."""


def sign(body: bytes) -> bytes:
    """Return the HMAC of these bytes, and the bytes."""
    return _tag(body) + body


def verify(data: bytes) -> bytes:
    """Return the bytes that a rank of this gang has signed. Raises ForgedError."""
    body = data[_TAG_BYTES:]
    if not hmac.compare_digest(data[:_TAG_BYTES], _tag(body)):
        raise ForgedError("an object that came over a process group is not from a rank of this gang")
    return body


def dumps(value: Any) -> bytes:
    """Return the signed pickle of a value."""
    return sign(pickle.dumps(value))


def loads(data: bytes) -> Any:
    """Return the value of a signed pickle. Raises ForgedError before anything is unpickled."""
    return pickle.loads(verify(data))  # noqa: S301 - a rank of this gang has pickled it


def authenticate_collectives() -> None:
    """Make all collectives of torch that send objects, also those of its checkpoints, use this module.

    All ranks call it, or none. Without a secret nothing changes.
    """
    if os.environ.get(wire.GANG_SECRET):
        # torch pickles and unpickles through these two names, and has no public hook (torch 2.13)
        distributed_c10d._pickler = _Pickler  # type: ignore[misc,assignment]  # noqa: SLF001
        distributed_c10d._unpickler = _Unpickler  # type: ignore[misc,assignment]  # noqa: SLF001


class _Pickler:
    """The part of `pickle.Pickler` that torch uses."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def dump(self, value: Any) -> None:
        self._file.write(dumps(value))


class _Unpickler:
    """The part of `pickle.Unpickler` that torch uses."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def load(self) -> Any:
        return loads(self._file.read())


def _tag(body: bytes) -> bytes:
    secret = os.environ.get(wire.GANG_SECRET, "").encode(errors="surrogateescape")
    return hmac.digest(secret, _CONTEXT + body, "sha256")
