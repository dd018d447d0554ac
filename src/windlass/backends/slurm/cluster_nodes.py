"""Nodes of a partition as `sinfo -N` prints them, in columns of fixed width: the same in all versions of Slurm."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.backends.slurm.commands import CommandRunner, printable
from windlass.core.model.resources import CPU, GPU, MEMORY

_WIDTHS = {
    "NodeList": 80,
    "StateLong": 24,
    "CPUsState": 40,
    "Memory": 24,
    "AllocMem": 24,
    "Gres": 200,
    "GresUsed": 200,
    "Reason": 120,
}
_GPUS = re.compile(r"gpu(?::[\w.-]+|:\(null\))?:([0-9]{1,4})")
_USABLE = ("idle", "mixed", "allocated", "completing", "planned")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node. Amounts in the units of the core."""

    name: str
    state: str
    reason: str
    """Reason of an administrator for its state."""
    capacity: dict[str, int]
    free: dict[str, int]

    @property
    def is_usable(self) -> bool:
        """Whether jobs may start on it, now or after others have ended."""
        return self.state.rstrip("*~#!%$@^+-").startswith(_USABLE) and "*" not in self.state


def read_nodes(run: CommandRunner, partition: str = "") -> list[SlurmNode]:
    """The nodes of a partition, or of several separated by commas. Raises SlurmError."""
    columns = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())
    words = ["sinfo", "--noheader", "--Node", f"--Format={columns}"]
    text = run([*words, f"--partition={partition}"] if partition else words)
    nodes = [_node(line) for line in text.splitlines() if line.strip()]
    return [*{node.name: node for node in nodes}.values()]  # one in two partitions has two lines


def _node(line: str) -> SlurmNode:
    cells = {}
    for name, width in _WIDTHS.items():
        cells[name], line = printable(line[:width].strip()), line[width:]
    counts = [int(part) for part in cells["CPUsState"].split("/") if part.isdecimal()]
    _, idle, _, cpus = counts if len(counts) == 4 else (0, 0, 0, 0)
    memory, gpus = _amount(cells["Memory"]), _gpus(cells["Gres"])
    return SlurmNode(
        cells["NodeList"],
        cells["StateLong"],
        "" if cells["Reason"] == "none" else cells["Reason"],
        {CPU: cpus * 1000, MEMORY: memory * 2**20, GPU: gpus},
        {
            CPU: idle * 1000,
            MEMORY: max(0, memory - _amount(cells["AllocMem"])) * 2**20,
            GPU: max(0, gpus - _gpus(cells["GresUsed"])),
        },
    )


def _amount(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _gpus(text: str) -> int:
    return sum(int(count) for count in _GPUS.findall(text))
