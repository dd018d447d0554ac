"""The field `network`: the fabric between the nodes of a job, by name, with parameters."""

from __future__ import annotations

from windlass.hardware.network.profiles import NAMES
from windlass.hardware.network.request import MAX_CHARS, PATTERN, format_network, parse_network
from windlass.jobs.syntax.field import Field
from windlass.jobs.syntax.value_types import Plain, ValueType, show


def _read(value: Plain) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expects {', '.join(NAMES)}, not {show(value)}")  # noqa: TRY004 - the value of a user
    return format_network(parse_network(value))


_PROFILE = ValueType(
    f"{', '.join(NAMES)}, with parameters",
    {"type": "string", "pattern": PATTERN, "maxLength": MAX_CHARS},
    _read,
    str,
)
NETWORK = Field(
    "network",
    "The network between the nodes, with parameters after commas (resource=, count=, networks=, interface=, hca=, "
    "hugepages=, nccl=, plugin=). On Kubernetes it adds resources, annotations, capabilities and variables to the "
    "pods; on this machine only variables. auto: what the nodes show.",
    _PROFILE,
    default="null (nothing is added)",
    example="efa",
    flags=("--network",),
    nullable=True,
    foreign_names=("fabric", "interconnect", "rdma", "efa"),
)
