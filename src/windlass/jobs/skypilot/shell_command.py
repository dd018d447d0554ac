"""The command of each node for a task of SkyPilot: bash with SkyPilot's variables, then `setup` and `run` unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass import wire
from windlass.jobs.errors import Place
from windlass.jobs.imports.file_entry import FileEntry
from windlass.jobs.imports.outcomes import Loss

_VARIABLE = re.compile(r"\$\{?(SKYPILOT_\w+)")
_FIRST_ONLY = re.compile(r"SKYPILOT_NODE_IPS\}?\"?'?\s*\|\s*(?:head\s+-n?\s*1\b|wc\s+-l)")
_NODES_OF_OTHERS = re.compile(
    r"(?:^|[\s;&|(/])(mpirun|mpiexec|pdsh|ssh|horovodrun|deepspeed(?=.*--hostfile)|ray\s+start|sky)(?=\s)"
)
_CONDA = re.compile(r"(?:^|[\s;&|])(conda\s+activate|source\s+activate)(?=\s|$)")
KNOWN_VARIABLES = frozenset(
    {
        *("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE"),
        *("SKYPILOT_SETUP_NODE_RANK", "SKYPILOT_SETUP_NODE_IPS", "SKYPILOT_SETUP_NUM_GPUS_PER_NODE"),
        *("SKYPILOT_TASK_ID", "SKYPILOT_CLUSTER_INFO", "SKYPILOT_USER", "SKYPILOT_INTERNAL_JOB_ID"),
        *("SKYPILOT_JOB_RANK", "SKYPILOT_NUM_JOBS"),
    }
)
"""Variables that `setup` and `run` have."""
_PRELUDE = f"""\
# Variables of SkyPilot, from those of Windlass; setup and run of the task follow unchanged.
export SKYPILOT_NUM_NODES="${{PET_NNODES:-1}}" SKYPILOT_NODE_RANK="${{PET_NODE_RANK:-0}}"
export SKYPILOT_NUM_GPUS_PER_NODE=@GPUS@ SKYPILOT_SETUP_NUM_GPUS_PER_NODE=@GPUS@
windlass_sky_addresses() {{  # the first node by its address, the others by number
  echo "${{MASTER_ADDR:-127.0.0.1}}"
  local node
  for (( node = 1; node < SKYPILOT_NUM_NODES; node++ )); do echo "node-$node"; done
}}
export SKYPILOT_NODE_IPS="$(windlass_sky_addresses)"
export SKYPILOT_SETUP_NODE_IPS="$SKYPILOT_NODE_IPS" SKYPILOT_SETUP_NODE_RANK="$SKYPILOT_NODE_RANK"
export SKYPILOT_TASK_ID="${{{wire.JOB_ID}:-job-0}}" SKYPILOT_JOB_RANK="${{{wire.INDEX}:-0}}" SKYPILOT_NUM_JOBS=1
export SKYPILOT_INTERNAL_JOB_ID="${{SKYPILOT_TASK_ID##*-}}" SKYPILOT_USER="$(id -un 2>/dev/null || id -u)"
export SKYPILOT_CLUSTER_INFO='{{"cluster_name": "windlass", "cloud": "", "region": "", "zone": ""}}'
"""
_SETUP = 'bash -c "$1" setup || exit\n'
_RUN = 'exec bash -c "$2" "$0"\n'


def shell_command(name: str, setup: str, run: str, gpus: int) -> list[str]:
    """The words of the command. `gpus`: GPUs of each node."""
    prelude = _PRELUDE.replace("@GPUS@", str(gpus)) + (_SETUP if setup else "") + _RUN
    return ["bash", "-c", prelude, name, setup, run]


def script_losses(entry: FileEntry, nodes: int) -> Iterator[Loss]:
    """Commands of `setup` or `run` that work otherwise, each once with its line."""
    seen: set[str] = set()
    for place, line in _lines(entry):
        for part, reason in _line_losses(line, nodes):
            if part not in seen:
                seen.add(part)
                yield Loss(place, part, reason)


def _lines(entry: FileEntry) -> Iterator[tuple[Place, str]]:
    """The lines of a script with their places: a block begins below its field."""
    line = entry.node.place.line
    is_block = re.search(r"[|>][-+0-9]*\s*(#.*)?$", entry.source.lines[line - 1]) is not None
    for number, text in enumerate(entry.text().splitlines(), line + is_block):
        yield Place(min(number, len(entry.source.lines)), 1), text.partition(" #")[0] if "#" in text else text


def _line_losses(line: str, nodes: int) -> Iterator[tuple[str, str]]:
    if line.lstrip().startswith("#"):
        return
    for name in _VARIABLE.findall(line):
        if name not in KNOWN_VARIABLES:
            yield f"${name}", "it has no value"
    others = _FIRST_ONLY.sub("", line)
    if nodes > 1 and "SKYPILOT_NODE_IPS" in others:
        yield "$SKYPILOT_NODE_IPS", "only the first line is an address; the others, node-1 and so on, are not resolved"
    found = _NODES_OF_OTHERS.search(line)
    if found and (nodes > 1 or found[1] == "sky"):
        yield found[1], "it knows no other nodes here; start ranks by torchrun on each node, or write an MPIJob"
    if _CONDA.search(line):
        yield "conda activate", "bash does not read ~/.bashrc; source the file of conda's shell functions before it"
