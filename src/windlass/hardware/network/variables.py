"""Settings of NCCL, PyTorch and libfabric that are wrong or obsolete, with what replaced them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_EFA = "https://github.com/aws-samples/awsome-distributed-training/blob/main/1.architectures/efa-cheatsheet.md"
_TORCH = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"


@dataclass(frozen=True, slots=True)
class ObsoleteSetting:
    """One setting. `value`: the only value that is wrong, "" for any; `replacement`: the variable that replaced it."""

    name: str
    why: str
    source: str
    value: str = ""
    replacement: str = ""
    family: str = "removed"
    """efa; removed, renamed or invented variables of NCCL; net: values of NCCL_NET."""


def _efa(name: str, why: str, value: str = "") -> ObsoleteSetting:
    return ObsoleteSetting(name, why, _EFA, value, family="efa")


def _renamed(name: str, replacement: str) -> ObsoleteSetting:
    return ObsoleteSetting(name, "NCCL 2.17 replaced it", _NCCL, replacement=replacement, family="renamed")


def _invented(name: str) -> ObsoleteSetting:
    return ObsoleteSetting(name, "NCCL never had it: write init_process_group(timeout=)", _TORCH, family="invented")


OBSOLETE = (
    _efa("FI_EFA_USE_DEVICE_RDMA", "libfabric 1.18 with aws-ofi-nccl 1.7 chooses RDMA itself"),
    _efa("FI_EFA_FORK_SAFE", "kernel 5.15 makes forks safe"),
    _efa("FI_EFA_ENABLE_SHM_TRANSFER", "shared memory is the default of libfabric"),
    _efa("FI_PROVIDER", "aws-ofi-nccl above 1.5 chooses EFA itself", "efa"),
    _efa("NCCL_PROTO", "aws-ofi-nccl above 1.5 needs no protocol; the variable disables faster ones", "simple"),
    _efa("RDMAV_FORK_SAFE", "it breaks registrations on newer kernels", "1"),
    ObsoleteSetting(
        "NCCL_NET", "the plugin is found by itself, and its name is Libfabric", _EFA, value="efa", family="net"
    ),
    ObsoleteSetting("NCCL_IB_CUDA_SUPPORT", "NCCL 2.29 does not have it; NCCL_NET_GDR_LEVEL replaced it", _NCCL),
    ObsoleteSetting("NCCL_LL_THRESHOLD", "NCCL 2.29 does not have it, and chooses the protocol itself", _NCCL),
    ObsoleteSetting("NCCL_TREE_THRESHOLD", "NCCL 2.29 does not have it, and chooses the algorithm itself", _NCCL),
    ObsoleteSetting("NCCL_SINGLE_RING_THRESHOLD", "NCCL 2.29 does not have it", _NCCL),
    _renamed("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"),
    _renamed("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"),
    *map(_invented, ("NCCL_TIMEOUT", "NCCL_TIMEOUT_MS", "NCCL_TIMEOUT_SECONDS", "NCCL_COMM_TIMEOUT")),
    _invented("NCCL_SOCKET_TIMEOUT"),
)
"""All of them, except old names of PyTorch's variables, which still work."""


def obsolete_settings(env: Mapping[str, str], family: str = "") -> Iterator[ObsoleteSetting]:
    """Yields the settings of an environment that are wrong or obsolete, perhaps of one family only."""
    for setting in OBSOLETE:
        if family not in ("", setting.family):
            continue
        if setting.name in env and (not setting.value or env[setting.name].strip().lower() == setting.value):
            yield setting
