"""Keeps the last result of the network test for each set of nodes in the state folder, and reads the results."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from windlass.backends.local.paths import prepare_folder
from windlass.diagnose.failures.log_files import open_regular
from windlass.diagnose.network.result_log import NetworkResult, read_result, write_result

_FOLDER, _SUFFIX = "network-tests", ".log"
MAX_RESULTS = 64
"""Sets of nodes whose result is kept: those that were measured last."""
_MAX_BYTES = 16 << 20
"""Size of a result. A larger one, of about 500 nodes, is not kept."""


def keep_result(state: Path, cluster: str, at: int, nodes: Sequence[str], gpus: int, events: Sequence[str]) -> str:
    """Keeps a result in place of the last one of these nodes. Returns why it could not be kept, "" if it is.

    Raises BackendError and OSError for a folder that cannot be written.
    """
    text = write_result(cluster, at, nodes, gpus, events).encode(errors="replace")
    if len(text) > _MAX_BYTES:
        return f"the result is larger than {_MAX_BYTES >> 20} MiB: save it with -o csv"
    folder = prepare_folder(state).root / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    key = hashlib.sha256(json.dumps([cluster, gpus, sorted(set(nodes))]).encode()).hexdigest()[:24]
    _replace(folder / f"{key}{_SUFFIX}", text)
    for old in sorted(folder.glob(f"*{_SUFFIX}"), key=_changed_at)[:-MAX_RESULTS]:
        old.unlink(missing_ok=True)
    return ""


def read_results(state: Path, cluster: str) -> list[NetworkResult]:
    """Returns the kept results of a cluster, "" for this machine, the newest first. Damaged files are left out."""
    found = [result for result in _read_all(state / _FOLDER) if result.cluster == cluster]
    return sorted(found, key=lambda result: -result.at)


def _read_all(folder: Path) -> Iterator[NetworkResult]:
    for path in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError, ValueError), open_regular(path) as file:
            yield read_result(file.read(_MAX_BYTES).decode(errors="replace"))


def _replace(path: Path, text: bytes) -> None:
    """Writes a file that only this user can read, at once."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(text)
    temporary.replace(path)


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
