"""`resources` of a task of SkyPilot: sizes of each node as fields of a job, and choices of clouds, which it lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from windlass.jobs.imports.file_entry import FileEntry
from windlass.jobs.imports.outcomes import Outcome, Setting
from windlass.jobs.skypilot.accelerators import Accelerator, accelerator_fields, gpus_of, read_accelerators
from windlass.jobs.syntax.names import IMAGE, LABEL, LABEL_VALUE, is_name
from windlass.jobs.syntax.yaml_tree import Scalar

Reader: TypeAlias = Callable[[FileEntry], Iterator[Outcome]]
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([KMGTP]i?B?)?\+?", re.IGNORECASE)
_CORES = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)\+?")
_ALTERNATIVES = ("any_of", "ordered", "candidates")
_NO_CLOUD = "Windlass starts no machines; the job runs on the nodes of its backend"
_DISK = "space on disks is not counted"


def read_resources(entry: FileEntry | None) -> tuple[list[Outcome], int]:
    """Outcomes of all fields, and the number of GPUs of each node. Raises InputError."""
    fields = entry.mapping(KNOWN) if entry else {}
    outcomes = [each for name, value in fields.items() if name in _READERS for each in _READERS[name](value)]
    outcomes += [value.lost(_REASONS[name]) for name, value in fields.items() if name in _REASONS]
    alternatives: Sequence[Accelerator] = ()
    for name in ("accelerators", *_ALTERNATIVES):
        if name in fields and not alternatives:
            alternatives = _alternatives_of(name, fields[name])
            outcomes += accelerator_fields(fields[name], alternatives)
    outcomes += [
        value.lost("the job has no alternatives; the fields around it hold, and its accelerators")
        for name, value in fields.items()
        if name in _ALTERNATIVES
    ]
    return outcomes, gpus_of(alternatives)


def _alternatives_of(name: str, entry: FileEntry) -> Sequence[Accelerator]:
    if name == "accelerators":
        return read_accelerators(entry)
    found = [item.mapping(KNOWN) for item in entry.items()]
    return [each for fields in found if "accelerators" in fields for each in read_accelerators(fields["accelerators"])]


def _cpus(entry: FileEntry) -> Iterator[Outcome]:
    found = _CORES.fullmatch(entry.text())
    if found:
        yield Setting("cpus", found[1])
    else:
        raise entry.error(f"expects a number of cores, such as 8 or 8+, not {entry.text()[:40]!r}")


def _memory(entry: FileEntry) -> Iterator[Outcome]:
    """SkyPilot counts in powers of 1024, in gigabytes without a unit; "4x" is memory for each core."""
    if entry.text().rstrip("+").endswith("x"):
        yield entry.lost("memory in proportion to cores is not reserved; write mem")
        return
    found = _SIZE.fullmatch(entry.text())
    if not found:
        raise entry.error(f"expects memory, such as 64 or 64GB+, not {entry.text()[:40]!r}")
    power = "KMGTP".index((found[2] or "G")[0].upper()) + 1
    yield Setting("mem", f"{max(1, int(float(found[1]) * 1024**power) >> 20)}Mi")


def _image(entry: FileEntry) -> Iterator[Outcome]:
    image = "" if entry.is_mapping else entry.text()
    name = image.removeprefix("docker:")
    if is_name(IMAGE, name) and (image.startswith("docker:") or re.fullmatch(r"[\w.-]+\.[a-z]+/[^:]+:[\w.-]+", name)):
        yield Setting("image", name)
    elif image:
        yield entry.lost("images of machines are not started; write image: a container image")


def _labels(entry: FileEntry) -> Iterator[Outcome]:
    for name, value in entry.mapping().items():
        if is_name(LABEL, name) and is_name(LABEL_VALUE, value.text()):
            yield Setting("labels", {name: value.text()})
        else:
            yield value.lost("a label has letters, digits, dashes, dots and underscores, at most 63")


def _priority(entry: FileEntry) -> Iterator[Outcome]:
    yield Setting("priority", entry.whole(-1000, 1000))


def _network(entry: FileEntry) -> Iterator[Outcome]:
    if entry.text() == "best":
        yield Setting("network", "auto")


def _spot(entry: FileEntry) -> Iterator[Outcome]:
    if entry.is_true():
        yield entry.lost(f"{_NO_CLOUD}; a lost node restarts the gang")


def _recovery(entry: FileEntry) -> Iterator[Outcome]:
    """A lost node restarts a gang in any case; restarts after errors are counted."""
    if not entry.is_mapping:
        return
    fields = entry.mapping(("strategy", "max_restarts_on_errors", "recover_on_exit_codes", "min_nodes"))
    if "max_restarts_on_errors" in fields:
        yield Setting("restart", {"user": fields["max_restarts_on_errors"].whole(0, 10**6)})
    if "recover_on_exit_codes" in fields:
        yield Setting("restart", {"retryable_exit_codes": _exit_codes(fields["recover_on_exit_codes"])})
    if "min_nodes" in fields:
        yield Setting("elastic", {"min": fields["min_nodes"].whole(1, 10**5)})


def _exit_codes(entry: FileEntry) -> list[int]:
    each = [entry] if isinstance(entry.node, Scalar) else entry.items()
    return [code.whole(1, 255) for code in each]


_READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "cpus": _cpus,
        "memory": _memory,
        "image_id": _image,
        "labels": _labels,
        "priority": _priority,
        "network_tier": _network,
        "use_spot": _spot,
        "job_recovery": _recovery,
        "spot_recovery": _recovery,
    }
)
_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "infra": f"{_NO_CLOUD}: select a cluster by --on CONTEXT",
        "cloud": f"{_NO_CLOUD}: select a cluster by --on CONTEXT",
        "region": _NO_CLOUD,
        "zone": _NO_CLOUD,
        "instance_type": f"{_NO_CLOUD}; write gpus, cpus and mem",
        "max_hourly_cost": _NO_CLOUD,
        "accelerator_args": "only GPUs are scheduled",
        "disk_size": _DISK,
        "disk_tier": _DISK,
        "local_disk": _DISK,
        "ephemeral_storage": _DISK,
        "volumes": "write volumes into pod",
        "ports": "no port is published; ranks reach each other on all ports",
        "autostop": "nodes are free as soon as the job ends",
        "priority_class": "write priority: a number",
        "_cluster_config_overrides": "it is internal to SkyPilot",
        "_is_image_managed": "it is internal to SkyPilot",
        "_requires_fuse": "it is internal to SkyPilot",
        "_docker_login_config": "write imagePullSecrets into pod",
    }
)
"""Field → what becomes of it."""
KNOWN = frozenset({"accelerators", *_ALTERNATIVES, *_READERS, *_REASONS, "_no_missing_accel_warnings"})
"""Every field of `resources`."""
