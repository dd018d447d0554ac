"""Other users of this machine: functions that run in a child with another uid."""

from __future__ import annotations

import codecs
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USER, STRANGER = 12_345, 65_534
"""Two uids that own no process of this machine."""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can start processes of other users")


def run_as(uid: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a function in a child of this user; raises its error."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            _become(uid)
            answer = True, function(*arguments)
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            answer = False, error
        os.write(writes, pickle.dumps(answer))
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        raw = file.read()
    os.waitpid(child, 0)
    succeeded, value = pickle.loads(raw)  # noqa: S301 - written by the own child
    if succeeded:
        return value
    raise value


def start_as(uid: int, function: Callable[..., Any], *arguments: Any) -> int:
    """Starts a function in a child of this user, which the caller kills; returns its pid when it calls `ready`."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            _become(uid)
            function(*arguments, ready=lambda: os.write(writes, b"1"))
        except BaseException as error:  # noqa: BLE001 - printed for the reader of the test's output
            sys.stderr.write(f"{error!r}\n")
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        assert file.read(1) == b"1", "the child ended before it was ready"
    return child


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder like /tmp: every user may create files in it, and delete only its own."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-test-", dir="/tmp"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _become(uid: int) -> None:
    """Changes the user. The standard library may be in a folder of root, so codecs are loaded before."""
    codecs.lookup("ascii")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
