"""Tells whether a local rank writes its stack on SIGUSR2, as ranks that an agent forks do."""

from __future__ import annotations

import signal
from pathlib import Path

_CAUGHT = "SigCgt:"


def writes_stack(pid: int, proc: Path = Path("/proc")) -> bool:
    """Tells whether a process catches SIGUSR2. Any other program would end by the signal."""
    try:
        lines = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    mask = next((line.removeprefix(_CAUGHT).strip() for line in lines if line.startswith(_CAUGHT)), "0")
    return bool(int(mask, 16) >> (signal.SIGUSR2 - 1) & 1)
