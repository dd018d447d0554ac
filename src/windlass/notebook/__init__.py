"""Windlass in a notebook: the extension of IPython with its magics, and the check of the machine.

`%load_ext windlass.notebook` adds `%%windlass`, which runs a cell on the ranks of a job, and `%windlass`. Belongs here:
what runs in a kernel, and `rank_cell`, which the ranks run.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics in a shell of IPython; IPython calls it."""
    from windlass.notebook.magics import register_magics  # noqa: PLC0415 - ranks do not need it

    register_magics(shell)


def check_machine() -> str:
    """Returns what this machine has: GPUs, driver, CUDA, NCCL and memory, a line for each."""
    from windlass.notebook.machine_check import describe_machine  # noqa: PLC0415 - as above

    return describe_machine()
