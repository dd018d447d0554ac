"""Captures, restores and seeds the random generators of one rank."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import sys
from typing import Any

import torch


def capture() -> bytes:
    """Return the states of Python's generator, numpy's if loaded, and torch's, of the CPU and of this rank's GPU."""
    version, words, gauss = random.getstate()
    states: dict[str, Any] = {"python": [version, list(words), gauss], "torch": _text(torch.get_rng_state())}
    if "numpy" in sys.modules:
        states["numpy"] = _numpy_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = _text(torch.cuda.get_rng_state())
    return json.dumps(states).encode()


def restore(data: bytes) -> None:
    """Restore captured states. The state of a GPU is ignored where there is none."""
    states = json.loads(data)
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(_tensor(states["torch"]))
    if "numpy" in states:
        _set_numpy(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(_tensor(states["cuda"]))


def reseed(seed: int, rank: int, step: int) -> None:
    """Seed all generators by rank and step: equal on each start, and different for any two ranks or steps."""
    drawn = int.from_bytes(hashlib.blake2b(f"{seed}/{rank}/{step}".encode(), digest_size=8).digest())
    random.seed(drawn)
    # Before CUDA is initialized, torch.manual_seed queues each call with its stack for later.
    torch.default_generator.manual_seed(drawn % (1 << 63))
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(drawn % (1 << 63))
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(drawn % (1 << 32))


def _numpy_state() -> list[Any]:
    name, words, position, has_gauss, gauss = sys.modules["numpy"].random.get_state()
    return [name, words.tolist(), position, has_gauss, gauss]


def _set_numpy(state: list[Any]) -> None:
    import numpy as np  # noqa: PLC0415 - only after the run has loaded numpy

    name, words, position, has_gauss, gauss = state
    np.random.set_state((name, np.array(words, dtype=np.uint32), position, has_gauss, gauss))  # noqa: NPY002 - the global generator


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(bytes(state.tolist())).decode()


def _tensor(text: str) -> torch.Tensor:
    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
