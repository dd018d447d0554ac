"""An event loop in a thread, for tests that are not async, or whose own loop must not be shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Background:
    """`with Background() as there: fake = there.enter(FakeKubelets(admin)); there.do(fake.add_nodes(["n1"]))`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="background", daemon=True)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self.do(self._stack.aclose())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enters a context in the loop; it is left at the end of this object's own context."""
        return self.do(self._stack.enter_async_context(context))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop and waits for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
