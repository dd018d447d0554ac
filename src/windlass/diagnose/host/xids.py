"""Actions for the Xid numbers in the kernel log of a node: what to do with the GPU, not with the job."""

from __future__ import annotations

from types import MappingProxyType

XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/"

_APPLICATION = "caused by a program: debug the job that ran then; the GPU is usable"
_RESET = "stop the jobs on this GPU and reset it: nvidia-smi --gpu-reset -i INDEX"
_REBOOT = "drain the node and restart it; if it repeats, replace the GPU"
_LINK = "NVLink: read nvidia-smi nvlink -e, reset all GPUs of the node; if it repeats, have the board serviced"
_ACTIONS = MappingProxyType(
    {
        **dict.fromkeys((13, 31, 43, 45, 68, 69), _APPLICATION),
        63: "the memory was repaired for the next reset: reset the GPU at the next chance",
        92: "many corrected memory errors: run dcgmi diag -r 3 when the node is free",
        94: "one program was hit and contained: restart the job, reset the GPU at the next chance",
        109: "restart the job; if it repeats on this node, reset the GPU",
        **dict.fromkeys((48, 64, 95, 119, 120, 140, 143), _RESET),
        **dict.fromkeys((62, 79), _REBOOT),
        **dict.fromkeys((74, *range(144, 151)), _LINK),
        154: "carry out the recovery action that the message names: nvidia-smi -q | grep -A2 'GPU Recovery Action'",
    }
)
_HARMLESS = frozenset({13, 31, 43, 45, 63, 68, 69, 94, 109})
"""Numbers after which the GPU is usable."""


def xid_action(xid: int) -> tuple[str, bool]:
    """Returns the action for a number, and whether the GPU is unusable until it is done. Unknown ones are faults."""
    return _ACTIONS.get(xid, f"look it up: {XID_SOURCE}"), xid not in _HARMLESS
