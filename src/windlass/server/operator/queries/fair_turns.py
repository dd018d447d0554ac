"""Limit of concurrent work that one user cannot use up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from windlass.backends.kubernetes.client.reviews import User, account_namespace
from windlass.server.errors import ApiError, ErrorCode


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
    async def take(self, key: str, within_s: float | None = None) -> AsyncIterator[None]:
        """Waits for a turn, which lasts until the end of the block. Raises ApiError if it does not come in time."""
        share = self._shares.setdefault(key, _Share(asyncio.Semaphore(self._each)))
        share.tasks += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(within_s):
                        await held.enter_async_context(share.turns)
                        await held.enter_async_context(self._turns)
                except TimeoutError:
                    message = f"too many requests are under way: no turn has come in {within_s:g} s"
                    raise ApiError(ErrorCode.BUSY, message, "ask again when fewer pages are open") from None
                yield
        finally:
            share.tasks -= 1
            if not share.tasks:
                del self._shares[key]
