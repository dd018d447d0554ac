"""Runs a function on several ranks: processes forked from one that has imported torch (`torch_forks`).

A test with eight ranks takes about a second.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch_forks
from windlass.controlplane.processes import free_port

_TIMEOUT_S = 90.0
"""Seconds, for all ranks together; a quiet machine needs one or two."""


def ranks(count: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """Returns the results of `work(*given)` on `count` ranks. Raises AssertionError with the first traceback.

    `work` is a function of a module, and runs with torchrun's variables. If a rank ends by SIGSEGV, a warning is
    issued and `work` runs once more: in about one of some thousand ranks a gloo thread (torch 2.13) finds malloc's
    lists corrupted. valgrind's memcheck finds no invalid access in the same loops, ours and torch's.
    """
    try:
        return _run(count, work, given)
    except CrashedError as crashed:
        warnings.warn(f"{crashed}; running once more", stacklevel=2)
        return _run(count, work, given)


AGENT_PRELOAD = "torch._dynamo,windlass.train.start,numpy.ma,torch.utils.serialization"
"""Value of WINDLASS_PRELOAD for agents of tests: modules that most ranks import sooner or later."""


def agent_environment() -> dict[str, str]:
    """Variables of agents of tests, whose fork servers are forked from a process that has imported torch."""
    return {"OMP_NUM_THREADS": "1", "WINDLASS_PRELOAD": AGENT_PRELOAD, "PYTHON_EXEC": torch_forks.python()}


class CrashedError(AssertionError):
    """A rank has ended by SIGSEGV."""


def _run(count: int, work: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        pipes, processes = [], []
        for rank in range(count):
            receiving, sending = os.pipe()
            pipes.append(Connection(receiving, writable=False))
            processes.append(torch_forks.start_call(_run_rank, work, given, rank, count, port, folder, file=sending))
            os.close(sending)
        try:
            return _gather_results(processes, pipes)
        finally:
            for process in processes:
                process.kill()
                process.join()
            for pipe in pipes:
                pipe.close()


def _gather_results(processes: list[torch_forks.ForkedProcess], pipes: list[Connection]) -> list[Any]:
    answers: dict[int, Any] = {}
    waiting = dict(zip(map(id, pipes), range(len(pipes)), strict=True))
    left = list(pipes)
    while left:
        ready = wait(left, timeout=_TIMEOUT_S)
        assert ready, f"ranks {sorted(waiting[id(each)] for each in left)} did not answer"
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting[id(pipe)]
            try:
                ended_well, answer = pipe.recv()
            except EOFError:
                processes[rank].join()
                ended_well, answer = False, f"rank {rank} exited with {processes[rank].exitcode}"
            if crashed := [rank for rank, each in enumerate(processes) if each.exitcode == -signal.SIGSEGV]:
                raise CrashedError(f"rank {crashed[0]} has ended by SIGSEGV")
            assert ended_well, answer
            answers[rank] = answer
            left.remove(pipe)
    return [answers[rank] for rank in range(len(pipes))]


def _run_rank(pipe: int, work: Callable[..., Any], given: Any, rank: int, count: int, port: int, folder: str) -> None:
    sending = Connection(pipe, readable=False)
    os.environ |= rank_environment(rank, count, port) | {"OMP_NUM_THREADS": "1", "TMPDIR": folder}
    tempfile.tempdir = None
    faulthandler.enable()
    try:
        sending.send((True, work(*given)))
    except BaseException:  # noqa: BLE001 - reported to the test
        sending.send((False, f"rank {rank}:\n{traceback.format_exc()}"))


def rank_environment(rank: int, count: int, port: int) -> dict[str, str]:
    """Returns torchrun's variables for a rank of `count` on this node."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


class ForkedScript:
    """A Python script with options, in a process of its own with one thread.

    `env`: all of its variables; None: those of this process. `output` is its stdout, as a text file.
    """

    def __init__(
        self, script: Path, *options: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        receiving, sending = os.pipe()
        words = [str(script), *map(str, options)]
        given = (words, str(cwd or Path.cwd()), dict(os.environ if env is None else env))
        self.process = torch_forks.start_call(_run_script, *given, file=sending)
        os.close(sending)
        self.output = os.fdopen(receiving)

    def finish(self) -> str:
        """Waits for the end, and returns the rest of the output. Raises AssertionError if the script fails."""
        with self.output:
            rest = self.output.read()
        self.process.join()
        assert self.process.exitcode == 0, rest
        return rest

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.output.close()


_TORCHRUN = Path(__file__).with_name("forked_torchrun.py")


def start_torchrun(env: Mapping[str, str], *words: object, cwd: Path | None = None) -> ForkedScript:
    """Starts torchrun in a process that has imported torch already."""
    return ForkedScript(_TORCHRUN, *words, cwd=cwd, env=env)


def finish_on_ranks(count: int, script: Path, *options: object) -> str:
    """Runs a Python script on `count` ranks with torchrun's variables, and returns the output of rank 0."""
    port = free_port()
    started = [
        ForkedScript(script, *options, env=os.environ | rank_environment(rank, count, port)) for rank in range(count)
    ]
    outputs = [each.finish() for each in started]
    return outputs[0]


def _run_script(output: int, words: list[str], cwd: str, env: dict[str, str]) -> None:
    os.dup2(output, 1)
    os.close(output)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")
