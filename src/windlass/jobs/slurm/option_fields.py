"""Options of sbatch that do not depend on others, as fields of a job; and the reasons why others have no field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import TypeAlias

from windlass.jobs.description.begin_time import read_begin
from windlass.jobs.errors import Place
from windlass.jobs.imports.outcomes import Loss, Outcome, Setting
from windlass.jobs.slurm.batch_script import SbatchOption
from windlass.jobs.slurm.hostlist import expand_hosts
from windlass.jobs.slurm.sbatch_options import full_name, is_known
from windlass.jobs.syntax.array_indexes import format_array, parse_array
from windlass.jobs.syntax.label_terms import parse_term
from windlass.jobs.syntax.names import JOB_REFERENCE, LABEL_VALUE, NODE_NAME, QUEUE_NAME, VARIABLE, is_name, valid_name

Reader: TypeAlias = Callable[[str, Place], Iterator[Outcome]]
"""Reads the value of an option. Raises ValueError if sbatch refuses it."""
_LOGS = "windlass logs shows the output of each rank"


def read_option(option: SbatchOption) -> Iterator[Outcome]:
    """The outcomes of one option. Raises ValueError with a text about its value."""
    name = full_name(option.name) or option.name
    if name in _READERS:
        yield from _READERS[name](option.value, option.place)
    elif name in _REASONS:
        yield Loss(option.place, option.name, _REASONS[name])
    elif name not in WITHOUT_EFFECT:
        unknown = "it is no option of sbatch itself" if not is_known(option.name) else "a job has no such setting"
        yield Loss(option.place, option.name[:60], unknown)


def _name(value: str, place: Place) -> Iterator[Outcome]:
    yield Setting("name", valid_name(value))
    if valid_name(value) != value:
        yield Loss(place, "--job-name", f"the job is called {valid_name(value)}: small letters, digits and dashes")


def _partition(value: str, place: Place) -> Iterator[Outcome]:
    first, comma, _ = value.partition(",")
    yield Setting("queue", first if is_name(QUEUE_NAME, first) else valid_name(first))
    if comma:
        yield Loss(place, "--partition", f"a job has one queue: {first[:80]}")
    if not is_name(NODE_NAME, first):
        called = f"its queue is called {queue_name(first)} on Windlass: small letters, digits, dashes and dots"
        yield Loss(place, "--partition", called)


def queue_name(partition: str) -> str:
    """The nearest valid name of a queue of Windlass."""
    return partition if is_name(NODE_NAME, partition) else valid_name(partition)


def _label(label: str) -> Reader:
    def read(value: str, place: Place) -> Iterator[Outcome]:
        if is_name(LABEL_VALUE, value):
            yield Setting("labels", {f"slurm-{label}": value})
        yield Loss(place, f"--{label}", f"it limits nothing; the label slurm-{label} keeps it")

    return read


def _constraint(value: str, place: Place) -> Iterator[Outcome]:
    """Features as labels that must exist: "&" joins conditions, "|" separates alternatives."""
    plain = value.strip("()")
    if re.search(r"[\[\]()*]", plain):
        yield Loss(place, "--constraint", "groups and counts of features have no equivalent; write affinity")
        return
    terms = [", ".join(part for part in re.split(r"[&,]", term) if part) for term in plain.split("|")]
    for term in terms:
        try:
            parse_term(term)
        except ValueError:
            yield Loss(place, "--constraint", f"{term[:40]!r} is no label of a node; write affinity or selector")
            return
    yield Setting("affinity", terms)


def _exclude(value: str, place: Place) -> Iterator[Outcome]:
    names = expand_hosts(value)
    if all(is_name(NODE_NAME, name) for name in names):
        yield Setting("avoid", names)
    else:
        yield Loss(place, "--exclude", "names of nodes have small letters, digits, dashes and dots")


def _exclusive(value: str, place: Place) -> Iterator[Outcome]:
    yield Setting("whole_node", True)
    if value:
        yield Loss(
            place, f"--exclusive={value[:40]}", "the job has its nodes to itself, without other jobs of the user"
        )


def _array(value: str, place: Place) -> Iterator[Outcome]:
    indexes, limit = parse_array(value)
    yield Setting("array", format_array(indexes, limit))
    if "%" in value and not limit:
        yield Loss(place, "--array", "the limit is not read")


def _dependency(value: str, place: Place) -> Iterator[Outcome]:
    """Jobs by name; a number is a job of Slurm, which no job here can wait for. `singleton` needs the job's name."""
    after: list[str] = []
    for part in re.split(r"[,?]", value):
        kind, *jobs = part.split(":")
        if kind == "singleton" and not jobs:
            continue
        for job in (each.partition("+")[0] for each in jobs):
            if kind in _AFTER and is_name(JOB_REFERENCE, job):
                after.append(f"{_AFTER[kind]}{job}")
            elif kind in _AFTER:
                yield Loss(place, f"{kind}:{job[:40]}", "this is no job here; write its name: after: [NAME]")
        if kind not in _AFTER:
            yield Loss(place, f"--dependency={part[:40]}", "a job waits for the start or the end of others only")
    if "?" in value:
        yield Loss(place, "--dependency", "a job waits for all of its dependencies, and not for any of them")
    if re.search(r"\+[0-9]", value):
        yield Loss(place, "--dependency", "a job waits for no time after the start of another")
    if after:
        yield Setting("after", after)


_AFTER = MappingProxyType(
    {"afterok": "", "afterany": "any:", "afternotok": "failed:", "after": "started:", "aftercorr": "matching:"}
)


def _no_requeue(value: str, place: Place) -> Iterator[Outcome]:
    del value, place
    yield Setting("preemptible", False)
    yield Setting("restart", {"infrastructure": 0})


def _chdir(value: str, place: Place) -> Iterator[Outcome]:
    del place
    if not value:
        raise ValueError("expects a folder")
    yield Setting("workdir", value)


def _export(value: str, place: Place) -> Iterator[Outcome]:
    words = [word for word in value.split(",") if word]
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    if pairs and all(is_name(VARIABLE, name) for name in pairs):
        yield Setting("env", pairs)
    if "ALL" not in value.upper().split(","):
        yield Loss(place, "--export", "the variables of the submitting shell are passed as well")


def _priority(value: str, place: Place) -> Iterator[Outcome]:
    if re.fullmatch(r"[0-9]{1,9}", value):
        yield Setting("priority", int(value))
    else:
        yield Loss(place, f"--priority={value[:40]}", "priorities are numbers")


def _nice(value: str, place: Place) -> Iterator[Outcome]:
    del place
    if not re.fullmatch(r"-?[0-9]{0,9}", value):
        raise ValueError(f"expects a number, not {value[:40]!r}")
    yield Setting("priority", -int(value or 100))


def _hold(value: str, place: Place) -> Iterator[Outcome]:
    del value, place
    yield Setting("suspend", True)


def _begin(value: str, place: Place) -> Iterator[Outcome]:
    """The time as it is written: it is read when the job is submitted, as sbatch does."""
    del place
    read_begin(value)
    yield Setting("begin", value)


def _image(value: str, place: Place) -> Iterator[Outcome]:
    """Pyxis writes "#" between a registry and the image, and takes files of images too."""
    image = value.replace("#", "/").removeprefix("docker://")
    if image.endswith(".sqsh") or image.startswith(("/", ".", "$")):
        yield Loss(place, "--container-image", "a file of an image is not pulled from a registry; write image")
    else:
        yield Setting("image", image)


_READERS: MappingProxyType[str, Reader] = MappingProxyType(
    {
        "--job-name": _name,
        "--partition": _partition,
        "--account": _label("account"),
        "--qos": _label("qos"),
        "--constraint": _constraint,
        "--exclude": _exclude,
        "--exclusive": _exclusive,
        "--array": _array,
        "--dependency": _dependency,
        "--no-requeue": _no_requeue,
        "--chdir": _chdir,
        "--export": _export,
        "--priority": _priority,
        "--nice": _nice,
        "--hold": _hold,
        "--begin": _begin,
        "--container-image": _image,
    }
)
"""Options that other options do not change. `gang_size` and `time_fields` read those that belong together."""
WITHOUT_EFFECT = frozenset(
    {
        "--get-user-env",
        "--kill-on-invalid-dep",
        "--open-mode",
        "--parsable",
        "--quiet",
        "--requeue",
        "--verbose",
        "--wait",
    }
    | {"--wait-all-nodes", "--no-bell", "--propagate", "--ignore-pbs", "--use-min-nodes"}
)
"""Options about the call of sbatch itself, or about what every job has here."""
_PLACEMENT = "ranks are not bound to cores, sockets or GPUs within their node"
_REASONS = MappingProxyType(
    {
        "--output": _LOGS,
        "--error": _LOGS,
        "--input": "ranks have no standard input",
        "--mail-type": "no mail is sent; windlass run and windlass status report the end",
        "--mail-user": "no mail is sent; windlass run and windlass status report the end",
        "--deadline": "a job has no time of the day by which it ends; deadline limits its duration",
        "--time-min": "the time limit is not shortened",
        "--reservation": "reservations name the queues and users that they are for: windlass reserve",
        "--clusters": "select a cluster by --on CONTEXT",
        "--licenses": "licenses are not counted",
        "--comment": "a job has labels instead",
        "--wckey": "a job has labels instead",
        "--oversubscribe": "resources are not shared between jobs",
        "--overcommit": "resources are not shared between ranks",
        "--no-kill": "the loss of a node restarts the gang",
        "--switches": "write topology with a level of the cluster",
        "--contiguous": "write topology with a level of the cluster",
        "--tmp": "space on disks is not counted",
        "--distribution": "ranks are numbered node by node",
        "--network": "write network: infiniband, roce, efa or tcp",
        "--ntasks-per-core": _PLACEMENT,
        "--ntasks-per-socket": _PLACEMENT,
        "--threads-per-core": _PLACEMENT,
        "--cores-per-socket": _PLACEMENT,
        "--sockets-per-node": _PLACEMENT,
        "--extra-node-info": _PLACEMENT,
        "--hint": _PLACEMENT,
        "--mem-bind": _PLACEMENT,
        "--gpu-bind": _PLACEMENT,
        "--gres-flags": _PLACEMENT,
        "--core-spec": _PLACEMENT,
        "--environment": "write image",
        "--container-mounts": "write volumes into pod",
        "--container-workdir": "write workdir",
        "--container-name": "each pod has a container of its own",
        "--no-container-mount-home": "a pod has no home folder of a user in any case",
    }
)
"""Option → what becomes of it."""
