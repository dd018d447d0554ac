"""Stand-in for Python: runs its arguments in a process that `torch_fork_server` forks, and exits as that one does.

python -S -E forked_python.py ADDRESS [-u] SCRIPT|-c CODE [ARGUMENT]...

SIGTERM is passed on.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys

MAX_REQUEST_BYTES = 1 << 20


def request(address: str, content: dict[str, object], files: dict[int, int]) -> socket.socket:
    """Connects to the server with a request. `files`: descriptors, by their number in the forked process."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST_BYTES)
    link.connect(address)
    whole = {**content, "files": list(files), "env": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109 - pathlib takes longer to import
    socket.send_fds(link, [pickle.dumps(whole)], list(files.values()))
    return link


def _open_files() -> dict[int, int]:
    """Open descriptors of this process."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib takes longer to import
        try:
            os.fstat(int(name))
        except OSError:  # of the listing itself
            continue
        found[int(name)] = int(name)
    return found


def _main(address: str, *argv: str) -> None:
    link = request(address, {"argv": argv}, _open_files())
    pid = int(link.recv(64))
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(pid, number))
    code = int(link.recv(64) or 1)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])
