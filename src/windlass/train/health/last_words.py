"""What ended a rank, told once: in the store that all ranks share, where those find it whose collectives break by it.

So an error on one rank is told by that rank, one on all ranks alike by the first of them, and nobody's traceback of a
connection that was closed hides it.
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

_KEY = "windlass/last words"
_FOR_THE_FIRST = 0.5
"""Seconds: an error of all ranks comes to all of them at once."""
_LOOK = 0.01
_OF_COLLECTIVES = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "process group", "Socket")
"""How torch speaks of a peer that is gone: most of it comes as plain RuntimeError."""

_OF_ENDS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket closed")


class Words(NamedTuple):
    """Who failed, the exit code that says whether starting again would help, and why."""

    rank: int
    code: int
    why: str


def told(mine: Words) -> bool:
    """Tell the others. Returns whether to tell people, too: not what the first rank says likewise."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return True
    store, by_rank = _get_default_store(), [f"{_KEY}/{rank}" for rank in range(dist.get_world_size())]
    speaks = True
    with contextlib.suppress(RuntimeError):
        if mine.rank and _waited_for(store, by_rank[:1]):  # else the error is not the first's as well
            speaks = store.get(by_rank[0]).decode() != mine.why
        store.set(_KEY, json.dumps(mine))
        store.set(by_rank[mine.rank], mine.why)
        if not mine.rank and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            _waited_for(store, by_rank)  # with this process the store goes
    return speaks


def _waited_for(store: Store, keys: list[str]) -> bool:
    """Whether all of them come in time. The store's own `wait` prints two warnings of torch's where they do not."""
    until = time.monotonic() + _FOR_THE_FIRST
    while not store.check(keys):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK)
    return True


def heard() -> Words | None:
    """What another rank said before it went, if it said anything."""
    try:
        store = _get_default_store()
        return Words(*json.loads(store.get(_KEY))) if store.check([_KEY]) else None
    except (RuntimeError, ValueError):
        return None


def is_of_others(error: BaseException) -> bool:
    """Whether this is what a collective says when another rank is gone, or what was made of that."""
    return any(
        isinstance(each, dist.DistError)
        or (isinstance(each, RuntimeError) and any(word in str(each) for word in _OF_COLLECTIVES))
        for each in _causes(error)
    )


def end_of_another(error: BaseException) -> str:
    """What it says where it comes of no more than that a connection to another rank has ended; else ""."""
    said = (str(each).strip() for each in _causes(error))
    return next((text.splitlines()[0] for text in said if any(word in text for word in _OF_ENDS)), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
