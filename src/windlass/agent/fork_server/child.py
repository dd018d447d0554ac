"""What a forked child does before it is a rank: a session, signals, files and an environment of its own."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from windlass.agent.fork_server import prctl, script

_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


def separate(parent: int, numbers: Sequence[int]) -> None:
    """Leave the nursery's session, die with it, and take signals as a fresh process does."""
    os.setsid()
    prctl.die_with_parent(parent)
    signal.set_wakeup_fd(-1)
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def live(message: dict[str, Any], files: tuple[int, ...]) -> None:
    """Be what the message asks for: a store, a program, a script, or the answer to a question."""
    if message["do"] == "store":
        _host_store(files[0], message["port"])
    elif message["do"] == "count":
        _count(message["what"], files[0])
    else:
        _be_rank(message, files)


def _host_store(listener: int, port: int) -> None:
    """Serve on a socket that listens already, so that nobody who knows its port comes too early; until killed."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - the agent itself does without torch

    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener)
    while store is not None:
        signal.pause()


def _be_rank(message: dict[str, Any], files: tuple[int, ...]) -> None:
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
    _draw_anew()
    # from here on SIGUSR2 writes all threads' stacks, from C: also when Python itself is stuck
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)
    script.run(words, module=how == "module")


def _execute(words: list[str]) -> None:
    for number in _PYTHON_IGNORES:  # and ignoring is inherited
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)  # noqa: S606 - no shell, on purpose
    except OSError as wrong:
        os.write(2, f"windlass agent: {words[0]}: {wrong.strerror}\n".encode())
        os._exit(127 if isinstance(wrong, FileNotFoundError) else 126)


def _draw_anew() -> None:
    """Numbers that were drawn by chance at import would be the same in all ranks; `random` sees to its own."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _count(what: str, answer: int) -> None:
    """How many ranks torchrun would start for `gpu`, `auto` and so on. In a child: it may wake the driver up."""
    try:
        from torch.distributed.run import determine_local_world_size  # noqa: PLC0415

        said = str(determine_local_world_size(what))
    except (ImportError, ValueError) as wrong:
        said = f"{wrong}; say a number"
    os.write(answer, said.encode())
    os._exit(0)
