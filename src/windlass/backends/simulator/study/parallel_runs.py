"""Runs tasks in parallel, one process each, with bounded concurrency, progress, and an end together with the caller."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Generic, TypeAlias, TypeVar

from windlass.backends.simulator.errors import SimulationError

Advance: TypeAlias = Callable[[int], None]
"""Called by a run with its progress in thousandths."""

ProgressCallback: TypeAlias = Callable[[Sequence[int], int], None]
"""Called with the progress of each run, and the number of runs that have ended."""

Result = TypeVar("Result")
Task: TypeAlias = Callable[[Advance], Result]

_POLL_INTERVAL_S = 0.2
_INTERRUPTIONS = {signal.SIGINT, signal.SIGTERM}
_FORK = multiprocessing.get_context("fork")
"""A forked process already has the trace; sending it would take longer than replaying it."""


def run_in_parallel(tasks: Sequence[Task[Result]], processes: int, on_progress: ProgressCallback) -> list[Result]:
    """Returns the tasks' results, in order. Calls `on_progress` while they run. Belongs in the main thread.

    A single task, or a single process, runs in this process. Raises the error of the first task that fails, and
    KeyboardInterrupt after SIGINT and SIGTERM; no process outlives the call.
    """
    if min(processes, len(tasks)) <= 1:
        return _one_by_one(tasks, on_progress)
    return _ParallelRuns(tasks, on_progress).all(processes)


def _one_by_one(tasks: Sequence[Task[Result]], on_progress: ProgressCallback) -> list[Result]:
    done: list[int] = [0] * len(tasks)
    results: list[Result] = []
    for number, task in enumerate(tasks):

        def advance(count: int, number: int = number) -> None:
            done[number] = count
            on_progress(done, len(results))

        results.append(task(advance))
        on_progress(done, len(results))
    return results


@dataclass(frozen=True, slots=True)
class _Failure:
    """The failure of a run: an error for people, or an internal error with its traceback."""

    text: str
    is_internal: bool


class _ParallelRuns(Generic[Result]):
    """The running processes, and the results of the ended ones."""

    def __init__(self, tasks: Sequence[Task[Result]], on_progress: ProgressCallback) -> None:
        self._tasks = tasks
        self._on_progress = on_progress
        self._waiting = list(range(len(tasks)))[::-1]
        self._running: dict[Any, tuple[int, ForkProcess]] = {}
        self._done: Any = _FORK.RawArray("q", len(tasks))
        self._results: dict[int, Result] = {}

    def all(self, processes: int) -> list[Result]:
        with _recorded_interrupts() as interrupts:
            try:
                while not interrupts and (self._waiting or self._running):
                    while self._waiting and len(self._running) < processes:
                        self._start(self._waiting.pop())
                    for pipe in wait(list(self._running), _POLL_INTERVAL_S):
                        self._end(pipe)
                    self._on_progress(self._done, len(self._results))
            finally:
                for _, process in self._running.values():
                    process.kill()
                for _, process in self._running.values():
                    process.join()
        if interrupts:
            raise KeyboardInterrupt
        return [self._results[number] for number in range(len(self._tasks))]

    def _start(self, number: int) -> None:
        receiver, sender = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_carry_out, args=(self._tasks[number], number, self._done, sender), daemon=True)
        process.start()
        self._running[receiver] = number, process
        sender.close()

    def _end(self, pipe: Any) -> None:
        number, process = self._running[pipe]
        try:
            answer = pipe.recv()
        except EOFError:
            process.join()
            text = f"a run was ended by signal {-(process.exitcode or 0)}, perhaps for lack of memory; try a smaller -j"
            answer = _Failure(text, is_internal=False)
        del self._running[pipe]
        process.join()
        if isinstance(answer, _Failure):
            raise RuntimeError(answer.text) if answer.is_internal else SimulationError(answer.text)
        self._results[number] = answer


@contextmanager
def _recorded_interrupts() -> Iterator[list[int]]:
    """Yields a list of the SIGINT and SIGTERM that come in the block.

    A KeyboardInterrupt that a signal handler raises while a destructor runs is printed and lost, so that the program
    would go on. Source: https://docs.python.org/3/library/signal.html#note-on-signal-handlers-and-exceptions
    """
    received: list[int] = []
    previous = {number: signal.signal(number, lambda each, _frame: received.append(each)) for number in _INTERRUPTIONS}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _carry_out(task: Task[Any], number: int, done: Any, pipe: Connection) -> None:
    """Runs a task in a process of its own. Ignores SIGINT: the parent handles it and ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    started_by = os.getppid()

    def advance(count: int) -> None:
        done[number] = count
        if os.getppid() != started_by:
            os._exit(1)  # the parent, which would read the result, has ended

    try:
        answer = task(advance)
    except SimulationError as error:
        answer = _Failure(str(error), is_internal=False)
    except Exception as error:  # noqa: BLE001 - the parent raises it again
        answer = _Failure(f"{type(error).__name__}: {error}\n{traceback.format_exc()}", is_internal=True)
    pipe.send(answer)
