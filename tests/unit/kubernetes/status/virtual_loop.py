"""An event loop in virtual time: where it would wait for a timer, its clock jumps there."""

import asyncio
import selectors


class _Selector(selectors.SelectSelector):
    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers need no real time."""

    def __init__(self):
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


def run_in_virtual_time(main):
    """The result of a coroutine, without real waiting."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
