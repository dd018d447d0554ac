"""Reads the request of a sharing plan from a YAML file or from options, with the place of every fault."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.hardware.sharing.request import Arrivals, Isolation, Pool, SharingRequest, Workload, WorkloadKind
from windlass.hardware.sharing.request_fields import ARRIVALS, POOL, REQUEST, WORKLOAD
from windlass.jobs.errors import FieldPath, InputError, Place, Problem, input_error
from windlass.jobs.syntax.field import Shape, Table
from windlass.jobs.syntax.settings_line import read_spelled
from windlass.jobs.syntax.table_reader import Reader
from windlass.jobs.syntax.text import STDIN, Text, read_text
from windlass.jobs.syntax.yaml_tree import compose

_MOST_POOLS, _MOST_WORKLOADS = 16, 64
_LONGEST_TRACE_S = 1e9
_DEFAULT_SLOWDOWN = {True: 2.0, False: 1.1}
"""Whether a workload is a service → its default limit."""
_FIELDS = (*REQUEST, *POOL, *WORKLOAD, *ARRIVALS)
_FILE_EXAMPLES = {
    **{field.name: f"{field.name}: {field.example}" for field in _FIELDS},
    "gpu and gpus": "gpu: A100-80GB and gpus: 8",
    "arrivals": "arrivals: {rate: 20/s}",
}
"""Field → its example in a file, as errors show it."""
_OPTION_EXAMPLES = {
    **{field.name: f"{field.name}={field.example}" for field in _FIELDS},
    "pools": "--pool name=a100,gpu=A100-80GB,gpus=8,nodes=4",
    "workloads": "--workload name=train,kind=training,gpus=8,memory=70Gi,duration=2d",
    "gpu and gpus": "gpu=A100-80GB,gpus=8",
    "arrivals": "rate=20/s",
}
"""Field → its example on the command line."""


_DURATIONS = {"training": "2d", "batch": "20m", "notebook": "30s"}
"""Kind of workload → the example of its duration; that of the field is one request."""


def load_request(path: str) -> SharingRequest:
    """Reads a file, or standard input for "-". Raises InputError with all faults."""
    return read_request(read_text(path), Path() if path == STDIN else Path(path).parent)


def read_request(text: Text, folder: Path) -> SharingRequest:
    """Reads the text of a file in a folder, by which traces are found. Raises InputError."""
    documents = compose(text)
    if len(documents) != 1:
        raise input_error(text.source, f"write pools and workloads as one document; there are {len(documents)}")
    reader = Reader(text)
    values = reader.table(documents[0], REQUEST, (), "a sharing request")
    if not reader.problems:
        reader.problems += [reader.problem_at(path, message) for path, message in _faults(values, _FILE_EXAMPLES)]
    if reader.problems:
        raise InputError(reader.problems)
    return _request(values, folder)


def request_of_options(pools: Sequence[str], workloads: Sequence[str], seed: int) -> SharingRequest:
    """Reads --pool and --workload: fields as name=value, separated by commas. Raises InputError with all faults."""
    one_line = (*(field for field in WORKLOAD if field.shape is Shape.ONE), *ARRIVALS)
    problems: list[Problem] = []
    values = {
        "pools": _settings("--pool", pools, POOL, problems),
        "workloads": [_with_arrivals(each) for each in _settings("--workload", workloads, one_line, problems)],
        "seed": seed,
    }
    if not problems:
        options = {"pools": "--pool", "workloads": "--workload"}
        faults = _faults(values, _OPTION_EXAMPLES)
        problems += [Problem(options[str(path[0])], _named(values, path) + message) for path, message in faults]
    if problems:
        raise InputError(problems)
    return _request(values, Path())


def _settings(option: str, lines: Sequence[str], table: Table, problems: list[Problem]) -> list[dict[str, Any]]:
    """Reads each value of an option; adds faults to `problems`."""
    found = []
    for line in lines:
        try:
            found.append(read_spelled(line.split(","), table))
        except ValueError as error:
            problems.append(Problem(option, str(error)))
    return found


def _with_arrivals(values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in ARRIVALS}
    arrivals = {name: value for name, value in values.items() if name in names}
    rest = {name: value for name, value in values.items() if name not in names}
    return {**rest, "arrivals": arrivals} if arrivals else rest


def _named(values: dict[str, Any], path: FieldPath) -> str:
    """Returns the start of an error text: which of several options is meant."""
    if len(path) < 2:
        return ""
    name = values[str(path[0])][int(path[1])].get("name")
    return f"{name}: " if name else f"number {int(path[1]) + 1}: "


def _faults(values: dict[str, Any], examples: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    """Faults between fields: missing ones, names used twice, fields of another kind. `examples`: text by field."""
    for key, table, most in (("pools", POOL, _MOST_POOLS), ("workloads", WORKLOAD, _MOST_WORKLOADS)):
        written = values.get(key, [])
        if not written:
            yield (key,), f"a request needs {key}; write for example {examples[key]}"
        if len(written) > most:
            yield (key,), f"at most {most} {key} are planned together, not {len(written)}"
        names = [each.get("name") for each in written]
        for number, each in enumerate(written):
            missing = [field.name for field in table if not field.default and field.name not in each]
            for name in missing[:1]:
                example = _example(name, each, examples)
                yield (key, number), f"it lacks {name}; write for example {example}"
            if each.get("name") in names[:number]:
                yield (key, number, "name"), f"{each['name']!r} is the name of another already"
            elif not missing:
                yield from (_pool_faults if key == "pools" else _workload_faults)((key, number), each, examples)


def _example(name: str, workload: Mapping[str, Any], examples: Mapping[str, str]) -> str:
    """Example of a missing field. The duration of a training, a batch job and a notebook's burst are longer."""
    duration = _DURATIONS.get(str(workload.get("kind"))) if name == "duration" else None
    return examples[name].replace("40ms", duration) if duration else examples[name]


def _pool_faults(path: FieldPath, pool: dict[str, Any], examples: Mapping[str, str]) -> Iterator[tuple[FieldPath, str]]:
    if "instance" in pool:
        for name in ("gpu", "gpus"):
            if name in pool:
                yield (*path, name), f"the instance states it; remove {name} or instance"
    elif "gpu" not in pool or "gpus" not in pool:
        yield path, f"it needs gpu and gpus, or an instance; write for example {examples['gpu and gpus']}"


def _workload_faults(
    path: FieldPath, workload: dict[str, Any], examples: Mapping[str, str]
) -> Iterator[tuple[FieldPath, str]]:
    kind = WorkloadKind(workload["kind"])
    arrivals = workload.get("arrivals")
    refused = ("gpus", "activity") if kind.is_service else ("latency",)
    for name in refused:
        if name in workload and not (name == "gpus" and workload[name] == 1):
            other = "training and batch" if kind.is_service else "inference and notebook"
            yield (*path, name), f"only {other} workloads have {name}; remove it"
    if "latency" in workload and "slowdown" in workload:
        yield (*path, "slowdown"), "the limit of latency replaces it; remove one of the two"
    if kind.is_service and arrivals is None:
        yield path, f"a service needs arrivals; write for example {examples['arrivals']}"
    if arrivals is not None:
        yield from _arrival_faults((*path, "arrivals"), arrivals, examples)


def _arrival_faults(
    path: FieldPath, arrivals: dict[str, Any], examples: Mapping[str, str]
) -> Iterator[tuple[FieldPath, str]]:
    if ("rate" in arrivals) == ("trace" in arrivals):
        yield path, f"arrivals have either a rate or a trace; write for example {examples['rate']}"
    burst, duty = arrivals.get("burst", 1.0), arrivals.get("duty", 0.0)
    if burst * duty > 1 + 1e-9:
        yield (
            (*path, "duty"),
            f"a peak of {burst:g} × the average lasts at most {1 / burst:.3g} of the time; lower duty",
        )
    if duty and duty < 1 and burst == 1:
        yield (*path, "duty"), "a rate without a burst has no peak; write burst, or remove duty"


def _request(values: dict[str, Any], folder: Path) -> SharingRequest:
    pools = tuple(_pool(each) for each in values["pools"])
    return SharingRequest(
        pools,
        tuple(_workload({"measured_on": pools[0].gpu, **each}, folder) for each in values["workloads"]),
        values.get("seed", 0),
    )


def _pool(written: dict[str, Any]) -> Pool:
    instance = written.get("instance")
    gpu, gpus = (instance.model, instance.gpus) if instance else (written["gpu"], written["gpus"])
    selector = written.get("selector", f"windlass.dev/pool={written['name']}")
    return Pool(written["name"], gpu, gpus, written["nodes"], selector)


def _workload(written: dict[str, Any], folder: Path) -> Workload:
    kind = WorkloadKind(written["kind"])
    arrivals = written.get("arrivals")
    latency = written.get("latency")
    plain = {name: written[name] for name in ("gpus", "compute", "activity", "measured_on", "use") if name in written}
    return Workload(
        name=written["name"],
        kind=kind,
        number=written.get("number", 1),
        memory=written["memory"],
        duration_s=written["duration"] / 1000,
        isolation=Isolation(written.get("isolation", Isolation.NONE)),
        latency_s=None if latency is None else latency / 1000,
        slowdown=written.get("slowdown", _DEFAULT_SLOWDOWN[kind.is_service]),
        arrivals=None if arrivals is None else _arrivals(arrivals, folder),
        **plain,
    )


def _arrivals(written: dict[str, Any], folder: Path) -> Arrivals:
    burst = written.get("burst", 1.0)
    found = Arrivals(
        written.get("rate", 0.0), burst, written.get("duty", 1 / burst), written.get("cycle", 600_000) / 1000
    )
    return replace(found, trace=read_trace(str(folder / written["trace"]))) if "trace" in written else found


def read_trace(path: str) -> tuple[float, ...]:
    """Reads the times of a trace: a number of seconds in each line, none below the one before. Raises InputError."""
    text = read_text(path)
    times: list[float] = []
    for number, line in enumerate(text.lines, 1):
        plain = line.partition("#")[0].strip()
        if not plain:
            continue
        try:
            time = float(plain)
        except ValueError:
            time = math.nan
        place = Place(number, 1, max(1, len(line)))
        if not 0 <= time <= _LONGEST_TRACE_S:
            raise InputError([text.problem("a line of a trace is a number of seconds, such as 12.5", place)])
        if times and time < times[-1]:
            raise InputError([text.problem("times of a trace do not decrease; sort the lines", place)])
        times.append(time)
    if len(times) < 2:
        raise input_error(text.source, "a trace has at least two arrivals; write one time in seconds on each line")
    return tuple(times)
