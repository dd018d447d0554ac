"""Renders a submission as fields with every default filled in; the text reads back as the identical job."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import yaml

from windlass.core.model.job import Job, RestartPolicy, Role, TopologyRequest
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, MEMORY
from windlass.jobs.description.fields import JOB, RESTART, ROLE
from windlass.jobs.description.resolution import MIG, POLICY_NAMES
from windlass.jobs.description.schedule_fields import schedule_values
from windlass.jobs.description.submission import Submission
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.yaml_tree import UNPRINTABLE, plain_value

_ESCAPED = re.compile(rf"{UNPRINTABLE.pattern}|[\x85\u2028\u2029]")
"""Characters that JSON allows in a string and YAML does not: the last three are line ends in YAML."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML writer whose text reads back equally by YAML 1.1, as PyYAML has it, and 1.2, as job files are read."""


def _represent_text(dumper: Any, text: str) -> Any:
    """Quotes a text that YAML 1.2 would read as a number ("08"); PyYAML quotes those of YAML 1.1."""
    style = None if isinstance(plain_value(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def render(submission: Submission, form: Literal["yaml", "json"] = "yaml") -> str:
    """The job as a file, without its user: that is the user who submits it."""
    fields = as_fields(submission)
    if form == "json":
        written = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
        return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
    return write_fields(fields)


def write_fields(fields: Any) -> str:
    """Plain data as YAML that reads back equally."""
    text: str = yaml.dump(fields, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def as_fields(submission: Submission) -> dict[str, Any]:
    """The same as plain data: str, int, bool, None, lists and dicts."""
    job = submission.job
    values: dict[str, Any] = {
        "name": job.name,
        **_roles(job),
        "topology": _topology(job.topology),
        "gpu_type": job.gpu_types,
        "avoid": job.avoid,
        "preemptible": job.preemptible,
        "launcher": job.launcher,
        "agent": job.agent or None,
        "workdir": job.workdir,
        "queue": job.queue,
        "priority": job.priority,
        "time": job.walltime,
        "deadline": job.deadline,
        "start_timeout": job.start_timeout,
        "unreachable_grace": job.unreachable_grace,
        "ttl": job.ttl,
        "grace": job.grace,
        "restart": _restart(job.restart),
        "array": (submission.array, submission.array_limit) if submission.array else None,
        **schedule_values(submission.schedule),
        "after": job.after,
        "begin": job.begin,
        "suspend": job.suspend,
        "labels": job.labels,
    }
    return _written(values, JOB)


def _roles(job: Job) -> dict[str, Any]:
    """The fields of a single role called worker stand in the job itself."""
    if len(job.roles) > 1 or job.roles[0].name != "worker":
        return {"roles": {role.name: _written(_role(role), ROLE) for role in job.roles}}
    fields = _role(job.roles[0])
    return {"nodes" if name == "replicas" else name: value for name, value in fields.items()}


def _role(role: Role) -> dict[str, Any]:
    size = {"min": role.min_replicas, "max": role.max_replicas}
    return {
        **({"elastic": size} if role.elastic else {"replicas": role.replicas}),
        "gpus": role.resources.get(GPU, 0),
        "gpu_share": role.resources.get(GPU_MILLI),
        "mig": next((name.removeprefix(MIG) for name in role.resources if name.startswith(MIG)), None),
        "procs": role.procs,
        "cpus": role.resources.get(CPU, 0),
        "mem": role.resources.get(MEMORY),
        "command": role.command,
        "env": role.env,
        "image": role.image or None,
        "pod": role.pod,
        "network": role.network or None,
        "selector": role.node_selector,
        "whole_node": role.whole_node,
        "affinity": role.affinity,
        "tolerations": [
            {"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} for t in role.tolerations
        ],
    }


def _topology(request: TopologyRequest | None) -> dict[str, Any] | None:
    if request is None:
        return None
    how = {"preferred": not request.required, "spread": request.spread, "slice": request.slice}
    return {"level": request.level, **how}


def _restart(policy: RestartPolicy) -> dict[str, Any]:
    return _written({name: getattr(policy, attribute) for name, attribute in POLICY_NAMES.items()}, RESTART)


def _written(values: dict[str, Any], table: Table) -> dict[str, Any]:
    fields = {field.name: field for field in table}
    return {name: _write(value, fields[name]) for name, value in values.items()}


def _write(value: Any, field: Field) -> Any:
    match field.shape:
        case Shape.ONE:
            return None if value is None else field.value_type.write(value)
        case Shape.LIST:
            return [field.value_type.write(item) for item in value]
        case Shape.COMMAND:
            return list(value)
        case Shape.FREE:
            return json.loads(value or "{}")
        case Shape.MAP:
            return dict(value)
    return value
