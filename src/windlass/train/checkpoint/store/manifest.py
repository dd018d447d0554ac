"""The manifest of a checkpoint: its files with sizes and checksums, its tensors, and the progress of training. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from windlass.train.checkpoint.store.errors import CheckpointError, CheckpointManifestError, NewerFormatError

FORMAT = 1
OBJECT = "object"
"""The dtype of values that are no tensors: learning rates, counters, names."""


class FileFact(NamedTuple):
    """Expected size in bytes and CRC-32 of a file."""

    size: int
    crc32: int


class TensorFact(NamedTuple):
    """A whole tensor, however it was split: its shape, and torch's name of its dtype ("float32")."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One checkpoint. Steps, samples and ranks are counts; `saved_at` is ms since the epoch."""

    step: int
    samples: int
    mesh: str
    """Degrees, as users write them: "dp=2,tp=2"."""
    world: int
    """Number of ranks that wrote it."""
    saved_at: int
    files: Mapping[str, FileFact] = field(default_factory=dict)
    tensors: Mapping[str, TensorFact] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further facts needed to resume, as JSON."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(fact.size for fact in self.files.values())


def to_json(manifest: Manifest) -> bytes:
    """Serialize with a checksum. Raises CheckpointError for facts that are not JSON."""
    try:
        content = json.loads(_canonical(asdict(manifest)))
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the facts of a checkpoint must be JSON: {error}") from None
    sealed = {"windlass": FORMAT, "crc32": zlib.crc32(_canonical(content)), "checkpoint": content}
    return json.dumps(sealed, indent=1, sort_keys=True).encode()


def from_json(data: bytes) -> Manifest:
    """Parse the result of `to_json`. Raises CheckpointManifestError; every flipped bit is detected."""
    content = _unseal(data)
    try:
        return Manifest(
            step=int(content["step"]),
            samples=int(content["samples"]),
            mesh=str(content["mesh"]),
            world=int(content["world"]),
            saved_at=int(content["saved_at"]),
            files={name: FileFact(*fact) for name, fact in content["files"].items()},
            tensors={name: TensorFact(tuple(shape), dtype) for name, (shape, dtype) in content["tensors"].items()},
            facts=content["facts"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointManifestError(f"is not complete ({error!r})") from None


def _unseal(data: bytes) -> dict[str, Any]:
    try:
        sealed = json.loads(data)
        version, crc32, content = sealed["windlass"], sealed["crc32"], sealed["checkpoint"]
        found = zlib.crc32(_canonical(content))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointManifestError("was not written by Windlass") from None
    if crc32 != found or not isinstance(content, dict):
        raise CheckpointManifestError("does not match its own checksum")
    if version != FORMAT:
        kind = NewerFormatError if isinstance(version, int) and version > FORMAT else CheckpointManifestError
        raise kind(f"has format {version!r}, and this Windlass reads {FORMAT}: use a newer one")
    return content


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
