"""One client for each target, which the decorated functions of a program share."""

from __future__ import annotations

import os
from functools import cache

from windlass.client.client import Client


def shared_client(target: str | None, namespace: str) -> Client:
    """Returns the client of a target under the present environment, opened once in each process."""
    on = target or os.environ.get("WINDLASS_ON")
    return _open(on, namespace, os.environ.get("WINDLASS_STATE"), os.getpid())


@cache
def _open(target: str | None, namespace: str, state: str | None, _pid: int) -> Client:
    return Client(target, namespace=namespace, state=state)
