"""The table of network profiles: resources, capabilities, huge pages and variables of each, with sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

AUTO = "auto"
MULTUS = "k8s.v1.cni.cncf.io/networks"
"""Annotation by which Multus attaches further networks to a pod."""
HUGE_PAGES = "hugepages-2Mi"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
IPC_LOCK = "IPC_LOCK"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_EKS = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_EFA_VARIABLES = (
    "https://github.com/aws-samples/awsome-distributed-training/blob/main/1.architectures/efa-cheatsheet.md"
)
_OPERATOR = "https://docs.nvidia.com/networking/display/kubernetes25100/quick-start"
_RDMA = re.compile(r"rdma/|nvidia\.com/.*(rdma|sriov|mlnxnics)|.*/roce|mellanox\.com/|openshift\.io/.*(rdma|ib)")


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a profile. `value` may contain `{interface}` or `{hca}`: the parameter of that name.

    `parameter`: set only where this parameter is given, and for `hugepages` only where it is 0. `before`: set only for
    a version of the `parameter` below this one.
    """

    name: str
    value: str
    why: str
    source: str
    parameter: str = ""
    before: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """One profile. `resource`: the device of the plugin that serves it, "" without one.

    `needs_networks`: the devices are of use only through interfaces that Multus attaches. `is_per_network`: each of
    these takes a device of its own. `hugepages_mib`: MiB in huge pages of a pod that has a whole node.
    """

    name: str
    help: str
    fabric: str
    source: str
    resource: str = ""
    capabilities: tuple[str, ...] = ()
    hugepages_mib: int = 0
    needs_networks: bool = False
    is_per_network: bool = False
    variables: tuple[Variable, ...] = ()

    @property
    def hugepages(self) -> str:
        """The amount for a whole node as Kubernetes writes it; "" without."""
        return f"{self.hugepages_mib}Mi" if self.hugepages_mib else ""


_INTERFACE = (
    Variable(
        "NCCL_SOCKET_IFNAME",
        "={interface}",
        "NCCL connects its ranks through this interface; `=` takes the name itself, not names that begin with it.",
        _NCCL,
        "interface",
    ),
    Variable(
        "GLOO_SOCKET_IFNAME",
        "{interface}",
        "gloo listens on this interface instead of the one of the host name.",
        "https://docs.pytorch.org/docs/stable/distributed.html#common-environment-variables",
        "interface",
    ),
)
_HCA = Variable(
    "NCCL_IB_HCA",
    "={hca}",
    "NCCL uses these devices alone; without `=` mlx5_1 means mlx5_10 too.",
    _NCCL,
    "hca",
)
_GID = Variable(
    "NCCL_IB_GID_INDEX",
    "3",
    "NCCL below 2.21 does not find the address of type RoCE v2 itself; its index is usually 3.",
    _NCCL,
    "nccl",
    (2, 21),
)
_EFA = (
    Variable(
        "FI_EFA_USE_HUGE_PAGE",
        "0",
        "Without huge pages in the pod, libfabric must not ask for them: a fork of a data loader would fail.",
        _EFA_VARIABLES,
        "hugepages",
    ),
    Variable(
        "FI_EFA_USE_DEVICE_RDMA",
        "1",
        "aws-ofi-nccl below 1.7 does not choose RDMA itself.",
        _EFA_VARIABLES,
        "plugin",
        (1, 7),
    ),
    Variable(
        "FI_PROVIDER", "efa", "aws-ofi-nccl below 1.6 may choose another provider.", _EFA_VARIABLES, "plugin", (1, 6)
    ),
    Variable(
        "NCCL_PROTO",
        "simple",
        "aws-ofi-nccl below 1.6 does not keep the order that other protocols need.",
        _EFA_VARIABLES,
        "plugin",
        (1, 6),
    ),
)

_ROWS = (
    NetworkProfile(
        "efa",
        "AWS Elastic Fabric Adapter: adapters in proportion to the GPUs of a pod, and huge pages for libfabric.",
        "efa",
        _EKS,
        EFA_RESOURCE,
        hugepages_mib=5120,
        variables=(*_INTERFACE, *_EFA),
    ),
    NetworkProfile(
        "infiniband",
        "InfiniBand through the RDMA shared device plugin, which mounts /dev/infiniband into the container.",
        "infiniband",
        f"{_OPERATOR}/ipoib-rdma-shared.html",
        "rdma/rdma_shared_device_a",
        (IPC_LOCK,),
        variables=(*_INTERFACE, _HCA),
    ),
    NetworkProfile(
        "roce",
        "RDMA over Ethernet through the RDMA shared device plugin, and macvlan interfaces that Multus attaches.",
        "roce",
        f"{_OPERATOR}/macvlan-rdma-shared.html",
        "rdma/rdma_shared_device_a",
        (IPC_LOCK,),
        needs_networks=True,
        variables=(*_INTERFACE, _HCA, _GID),
    ),
    NetworkProfile(
        "roce-sriov",
        "RDMA over Ethernet through virtual functions (SR-IOV), one for each network that Multus attaches.",
        "roce",
        f"{_OPERATOR}/sriov-network-rdma.html",
        "nvidia.com/sriov_resource",
        (IPC_LOCK,),
        needs_networks=True,
        is_per_network=True,
        variables=(*_INTERFACE, _HCA, _GID),
    ),
    NetworkProfile(
        "tcp",
        "Sockets alone, also where an RDMA device or a network plugin is present.",
        "tcp",
        _NCCL,
        variables=(
            *_INTERFACE,
            Variable("NCCL_NET", "Socket", "NCCL uses its own sockets, and neither RDMA nor a plugin.", _NCCL),
        ),
    ),
)

PROFILES: Mapping[str, NetworkProfile] = MappingProxyType({row.name: row for row in _ROWS})
"""Network profiles by name."""
NAMES = (*PROFILES, AUTO)
"""Values of the field `network`."""


def is_rdma_resource(name: str) -> bool:
    """Tells whether a resource of Kubernetes is an RDMA device that pins memory, as InfiniBand and RoCE do."""
    return bool(_RDMA.match(name))


def profile_page(name: str) -> str:
    """Returns a profile with its sources as text. Raises KeyError."""
    profile = PROFILES[name]
    facts = {
        "RESOURCE": profile.resource,
        "CAPABILITIES": ", ".join(profile.capabilities),
        "HUGE PAGES": profile.hugepages and f"{HUGE_PAGES}: {profile.hugepages} for a whole node",
        "NETWORKS": "required: networks=NAME+NAME" if profile.needs_networks else "optional",
    }
    lines = [f"network {name}", "", profile.help, ""]
    lines += [f"{label:<13} {fact or 'none'}" for label, fact in facts.items()]
    lines += [f"{'SOURCE':<13} {profile.source}", "", "VARIABLES"]
    for each in profile.variables:
        lines += [f"  {each.name}={each.value}  {_condition(each)}", f"    {each.why}", f"    {each.source}"]
    return "\n".join(lines) + "\n"


def _condition(variable: Variable) -> str:
    if variable.before:
        return f"({variable.parameter}= below {'.'.join(map(str, variable.before))})"
    if variable.parameter == "hugepages":
        return "(hugepages=0)"
    return f"({variable.parameter}=)" if variable.parameter else "(always)"
