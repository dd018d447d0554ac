"""Publishes the failure of a rank once, in the store of all ranks, where peers whose collectives break find the cause.

An error on one rank is printed by that rank, an error on all ranks by the first of them, and no traceback of a closed
connection hides the cause.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.distributed_c10d import _get_default_store

from windlass.train import authentication

_KEY = "windlass/failure report"
_REPORT_TIMEOUT_S = 0.5
"""Seconds to wait for reports of other ranks: an error of all ranks occurs on all of them at once."""
_POLL_S = 0.01
_COLLECTIVE_ERRORS = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "process group",
    "Socket",
)
"""Texts by which torch reports a lost peer, mostly as a plain RuntimeError."""

_CLOSED_CONNECTIONS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket closed")


class FailureReport(NamedTuple):
    """A failed rank, its exit code, which says whether a restart can help, and the reason."""

    rank: int
    code: int
    why: str


def publish(mine: FailureReport) -> bool:
    """Publish the report to other ranks. Returns whether to print it too: not a text that the first rank prints."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return True
    store, by_rank = _get_default_store(), [f"{_KEY}/{rank}" for rank in range(dist.get_world_size())]
    prints = True
    with contextlib.suppress(RuntimeError):
        if mine.rank and _wait_for_keys(store, by_rank[:1]):  # else the first rank did not have this error
            prints = store.get(by_rank[0]).decode() != mine.why
        store.set(_KEY, authentication.sign(json.dumps(mine).encode()))  # type: ignore[arg-type] # torch takes bytes
        store.set(by_rank[mine.rank], mine.why)
        if not mine.rank and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            _wait_for_keys(store, by_rank)  # the store ends with this process
    return prints


def _wait_for_keys(store: Store, keys: list[str]) -> bool:
    """Whether all keys appear in time. The store's own `wait` prints two torch warnings where they do not."""
    until = time.monotonic() + _REPORT_TIMEOUT_S
    while not store.check(keys):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    return True


def read_peer_report() -> FailureReport | None:
    """Return the report that another rank published before it ended, if any. Ignores one of a stranger."""
    try:
        store = _get_default_store()
        return FailureReport(*json.loads(authentication.verify(store.get(_KEY)))) if store.check([_KEY]) else None
    except (RuntimeError, ValueError):
        return None


def is_peer_failure(error: BaseException) -> bool:
    """Whether this error, or its cause, is how a collective fails when another rank is gone."""
    return any(
        isinstance(each, dist.DistError)
        or (isinstance(each, RuntimeError) and any(word in str(each) for word in _COLLECTIVE_ERRORS))
        for each in _causes(error)
    )


def lost_connection_text(error: BaseException) -> str:
    """Return the first line of the error if it says only that a connection to another rank has ended; else ""."""
    texts = (str(each).strip() for each in _causes(error))
    return next((text.splitlines()[0] for text in texts if any(word in text for word in _CLOSED_CONNECTIONS)), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
