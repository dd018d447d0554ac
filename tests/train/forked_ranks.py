"""Ranks as processes: forked from one that has imported torch, so that a test of eight takes a second."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import socket
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

_PATIENCE = 90.0
"""Seconds, for all ranks together; a quiet machine needs one or two."""


def ranks(count: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work(*given)` returns on each of so many ranks. Raises AssertionError with the traceback of the first.

    `work` is a function of a module, and runs with torchrun's variables. It is tried once more where a rank ends by
    SIGSEGV, which is said as a warning: in about one of some thousand ranks a thread of gloo's (torch 2.13) finds
    malloc's lists broken. Under valgrind's memcheck the same loops, ours and torch's, read and write nothing wrong.
    """
    try:
        return _tried(count, work, given)
    except CrashedError as crashed:
        warnings.warn(f"{crashed}; tried once more", stacklevel=2)
        return _tried(count, work, given)


class CrashedError(AssertionError):
    """A rank has ended by SIGSEGV."""


def _tried(count: int, work: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    context = _forking()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        processes = [
            context.Process(target=_be, args=(work, given, rank, count, port, folder, sending))
            for rank, (_, sending) in enumerate(pipes)
        ]
        for process, (_, sending) in zip(processes, pipes, strict=True):
            process.start()
            sending.close()
        try:
            return _gathered(processes, [receiving for receiving, _ in pipes])
        finally:
            for process in processes:
                process.kill()
                process.join()


def _forking() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed.tensor.parallel", "torch.distributed.pipelining"])
    return context


def _gathered(processes: list[Any], pipes: list[Connection]) -> list[Any]:
    answers: dict[int, Any] = {}
    waiting = dict(zip(map(id, pipes), range(len(pipes)), strict=True))
    left = list(pipes)
    while left:
        ready = wait(left, timeout=_PATIENCE)
        assert ready, f"ranks {sorted(waiting[id(each)] for each in left)} say nothing"
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting[id(pipe)]
            try:
                ended_well, answer = pipe.recv()
            except EOFError:
                processes[rank].join()
                ended_well, answer = False, f"rank {rank} has gone with {processes[rank].exitcode}"
            if crashed := [rank for rank, each in enumerate(processes) if each.exitcode == -signal.SIGSEGV]:
                raise CrashedError(f"rank {crashed[0]} has ended by SIGSEGV")
            assert ended_well, answer
            answers[rank] = answer
            left.remove(pipe)
    return [answers[rank] for rank in range(len(pipes))]


def _be(
    work: Callable[..., Any], given: Any, rank: int, count: int, port: int, folder: str, sending: Connection
) -> None:
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": folder,
    }
    import torch  # noqa: PLC0415 - the process that collects tests need not

    faulthandler.enable()
    torch.set_num_threads(1)
    try:
        sending.send((True, work(*given)))
    except BaseException:  # noqa: BLE001 - told to the test
        sending.send((False, f"rank {rank}:\n{traceback.format_exc()}"))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
