"""Limit of concurrent work that one user cannot use up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from windlass.backends.kubernetes.client.reviews import User, account_namespace


def limit_key(user: User) -> str:
    """Key under which limits count a user: the ServiceAccounts of one namespace count as one.

    A user that may create ServiceAccounts in a namespace may create any number of them.
    """
    namespace = account_namespace(user.name)
    return f"system:serviceaccounts:{namespace}" if namespace else user.name


@dataclass(slots=True)
class _Share:
    """Turns of one key, and the number of tasks that hold one or wait for one."""

    turns: asyncio.Semaphore
    tasks: int = 0


class FairTurns:
    """At most `total` tasks at once, and at most `each` of one key. Other tasks wait, first come, first served.

    Only `each` tasks of a key wait for a turn among all keys; the rest waits behind tasks of the same key.
    """

    def __init__(self, total: int, each: int) -> None:
        self._turns, self._each = asyncio.Semaphore(total), each
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        """Waits for a turn, which lasts until the end of the block."""
        share = self._shares.setdefault(key, _Share(asyncio.Semaphore(self._each)))
        share.tasks += 1
        try:
            async with share.turns, self._turns:
                yield
        finally:
            share.tasks -= 1
            if not share.tasks:
                del self._shares[key]
