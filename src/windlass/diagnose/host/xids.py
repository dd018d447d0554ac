"""Meanings and actions for the Xid and SXid numbers in a node's kernel log, from the tables of numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/"

_ACTIONS = {
    "ignore": "no action of its own",
    "retry": "restart the job; the GPU is usable",
    "reset": "stop the jobs on this GPU and reset it: nvidia-smi --gpu-reset -i INDEX",
    "restart-host": "drain the node and restart it; if it repeats, replace the GPU",
    "replace": "drain the node and have the part replaced",
}
_HARMLESS = ("ignore", "retry")
"""Actions after which the GPU is usable."""


def sxid_meaning(sxid: int) -> str:
    """Returns the meaning of a number of the NVSwitch driver, "" for an unknown one."""
    return str(_read_table("sxid").get(sxid, {}).get("meaning", ""))


def xid_action(xid: int) -> tuple[str, bool]:
    """Returns meaning and action of a number, and whether the GPU is unusable until then. Unknown ones are faults."""
    entry = _read_table("xid").get(xid)
    if entry is None:
        return f"look it up: {XID_SOURCE}", True
    return f"{entry['meaning']} Action: {_ACTIONS[entry['action']]}", entry["action"] not in _HARMLESS


@functools.cache
def _read_table(name: str) -> Mapping[int, Mapping[str, Any]]:
    import yaml  # noqa: PLC0415 - only if the kernel log has an Xid

    text = files("windlass.diagnose").joinpath(f"tables/{name}.yaml").read_text(encoding="utf-8")
    codes: Mapping[int, Mapping[str, Any]] = yaml.safe_load(text)["codes"]
    return codes
