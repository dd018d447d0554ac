"""Makes a forked child a rank or a store: its session, signals, files and environment. `server` forks it."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from windlass.agent.fork_server import prctl, script

_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


def separate(parent: int, signums: Sequence[int]) -> None:
    """Leaves the fork server's session, ties its life to the server's, and gives these signals their default effect."""
    os.setsid()
    prctl.die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    for signum in signums:
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def serve_request(message: dict[str, Any], files: tuple[int, ...]) -> None:
    """Becomes the store, the program or the script of a request, or answers it."""
    if message["request"] == "store":
        _host_store(files[0], message["port"])
    elif message["request"] == "count":
        _count(message["option"], files[0])
    else:
        _become_rank(message, files)


def _host_store(listener: int, port: int) -> None:
    """Hosts torch's store of one generation, until it is killed. A process of its own: it survives rank 0.

    The socket listens already, so no connection to its port comes too early.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - the agent itself does without torch

    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener)
    while store is not None:
        signal.pause()


def _become_rank(message: dict[str, Any], files: tuple[int, ...]) -> None:
    out, err, stacks = files
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((null, out, err)):
        os.dup2(source, target)
    for spent in (null, out, err):
        os.close(spent)
    os.environ.update(message["env"])
    words, how = message["argv"], message["how"]
    if how == "exec":
        _execute(words)
    _seed_numpy()
    # from here on SIGUSR2 writes the stacks of all threads; it is C code, so it works when Python itself is stuck
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
    script.run(words, module=how == "module")


def _execute(words: list[str]) -> None:
    for signum in _PYTHON_IGNORES:  # the new program would inherit that they are ignored
        signal.signal(signum, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)  # noqa: S606 - no shell, on purpose
    except OSError as error:
        os.write(2, f"windlass agent: {words[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _seed_numpy() -> None:
    """Seeds numpy again: its state from the import is the same in all ranks. The module `random` does so itself."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _count(option: str, answer: int) -> None:
    """Answers the number of ranks that torchrun starts for `gpu`, `auto` and so on. In a child: CUDA may initialize."""
    try:
        from torch.distributed.run import determine_local_world_size  # noqa: PLC0415

        text = str(determine_local_world_size(option))
    except (ImportError, ValueError) as error:
        text = f"{error}; say a number"
    os.write(answer, text.encode())
    os._exit(0)
