"""Fields of a request of a sharing plan: the schema of its file, and of --pool and --workload."""

from __future__ import annotations

import re

from windlass.hardware.errors import PlanError
from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.facts.instances import find_instance
from windlass.hardware.sharing.request import Isolation, WorkloadKind
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.value_types import Plain, ValueType, choice, named, show, whole

MOST_PODS = 1000
MOST_NODES = 1000
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)/(s|m|min|h|d)")
_NAME = named(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", "name", "small letters, digits and dashes, at most 40")


def _read_rate(value: Plain) -> float:
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or not float(found[1]):
        raise ValueError(f"expects arrivals in a time such as 20/s, 5/m, 3/h or 10/d, not {show(value)}")
    return float(found[1]) / _UNITS[found[2]]


def _number(least: float, most: float) -> ValueType:
    def read(value: Plain) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"expects a number from {least:g} to {most:g}, not {show(value)}")
        return float(value)

    words = f"number from {least:g} to {most:g}"
    return ValueType(words, {"type": "number", "minimum": least, "maximum": most}, read, float)


def _found(words: str, find: object) -> ValueType:
    """Names of a table of facts, as their rows."""

    def read(value: Plain) -> object:
        try:
            return find(value) if isinstance(value, str) else find(show(value))  # type: ignore[operator]
        except PlanError as error:
            raise ValueError(f"is not known: {error}") from None

    return ValueType(words, {"type": "string"}, read, str)


POOL: Table = (
    Field("name", "Name of the pool; groups of its nodes are named after it.", _NAME, example="a100"),
    Field(
        "gpu",
        "Model of its GPUs.",
        _found("model of GPU", find_gpu),
        default="that of the instance",
        example="A100-80GB",
        foreign_names=("gpu_type", "model"),
    ),
    Field("gpus", "GPUs of each node.", whole(1, 16), default="those of the instance", example="8"),
    Field(
        "instance",
        "Machine type, instead of gpu and gpus.",
        _found("machine type", find_instance),
        default="none",
        example="p4de.24xlarge",
        foreign_names=("instance_type",),
    ),
    Field("nodes", "Number of nodes.", whole(0, MOST_NODES), example="4", foreign_names=("count",)),
    Field(
        "selector",
        "Labels by which kubectl finds the nodes.",
        named(r"[-A-Za-z0-9_./=,!]{1,200}", "label selector", "a label selector such as pool=a100"),
        default="windlass.dev/pool=NAME",
        example="node.kubernetes.io/instance-type=p4de.24xlarge",
    ),
)
ARRIVALS: Table = (
    Field(
        "rate",
        "Arrivals of the whole workload, on average.",
        ValueType(
            "arrivals in a time, such as 20/s", {"type": "string", "pattern": f"^{_RATE.pattern}$"}, _read_rate, str
        ),
        default="none, with a trace",
        example="20/s",
    ),
    Field("burst", "Rate at the peak, in multiples of the average.", _number(1, 1000), default="1", example="4"),
    Field(
        "duty",
        "Fraction of the time in which the rate is at its peak.",
        _number(0.001, 1),
        default="1 / burst",
        example="0.2",
    ),
    Field("cycle", "Time from one peak to the next.", value_types.LIMIT, default="10m", example="1h"),
    Field(
        "trace",
        "File with the time of each arrival in seconds, one a line, instead of rate.",
        value_types.PATH,
        default="none",
        example="arrivals.txt",
    ),
)
WORKLOAD: Table = (
    Field("name", "Name of the workload; its queue has the same.", _NAME, example="chat"),
    Field("kind", "Kind of workload.", choice([each.value for each in WorkloadKind]), example="inference"),
    Field(
        "number",
        "Pods of a service, or jobs that run at a time.",
        whole(1, MOST_PODS),
        default="1",
        example="6",
        foreign_names=("replicas", "count"),
    ),
    Field("memory", "Memory on each GPU, with the CUDA context.", value_types.BYTES, example="18Gi"),
    Field("gpus", "GPUs of each job.", whole(1, 10_000), default="1", example="8"),
    Field(
        "isolation",
        "none, memory (no pod takes another's memory) or fault (nor ends another by its error).",
        choice([each.value for each in Isolation]),
        default="none",
        example="fault",
    ),
    Field(
        "compute", "Fraction of a GPU's compute that a busy pod can use.", _number(0.01, 1), default="1", example="0.3"
    ),
    Field(
        "activity", "Fraction of a job's time in which it uses the GPU.", _number(0.01, 1), default="1", example="0.4"
    ),
    Field("duration", "Time of one request, burst or job on a whole GPU.", value_types.LIMIT, example="40ms"),
    Field(
        "measured_on",
        "Model of GPU of which duration and compute are stated.",
        _found("model of GPU", find_gpu),
        default="that of the first pool",
        example="A100-80GB",
    ),
    Field(
        "use",
        "Use that you choose, which the plan then judges.",
        named(
            r"whole|mig:[1-7]g\.[0-9]{1,3}gb|(mps|time-slicing):([2-9]|[1-3][0-9]|4[0-8])",
            "use",
            "whole, mig:2g.20gb, mps:4 or time-slicing:4",
        ),
        default="the plan chooses",
        example="mig:2g.20gb",
    ),
    Field(
        "latency", "Limit of a service's latency, 95th percentile.", value_types.LIMIT, default="none", example="200ms"
    ),
    Field(
        "slowdown",
        "Limit of the mean time relative to whole GPUs, where latency sets none.",
        _number(1, 100),
        default="2 for services, 1.1 for jobs",
        example="1.5",
    ),
    Field(
        "arrivals",
        "Arrivals of requests, bursts or jobs.",
        shape=Shape.TABLE,
        default="none: each job slot always has a job",
        example="{rate: 20/s, burst: 4, duty: 0.2}",
        table=ARRIVALS,
    ),
)
REQUEST: Table = (
    Field(
        "pools",
        "Node pools.",
        shape=Shape.TABLES,
        example="[{name: a100, gpu: A100-80GB, gpus: 8, nodes: 4}]",
        table=POOL,
    ),
    Field(
        "workloads",
        "Workloads, the most important first.",
        shape=Shape.TABLES,
        example="[{name: train, kind: training, gpus: 8, memory: 70Gi, duration: 2d}]",
        table=WORKLOAD,
    ),
    Field("seed", "Seed of the simulated arrivals.", whole(0, 2**31), default="0", example="7"),
)
