"""torch's store of one generation, in a process of its own: it does not go down with rank 0."""

from __future__ import annotations

import signal


def host(listener: int, port: int) -> None:
    """Serve on a socket that listens already, so that nobody who knows its port comes too early; until killed."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - the agent itself does without torch

    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener)
    while store is not None:
        signal.pause()
