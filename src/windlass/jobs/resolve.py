"""From what was written to a whole `core.Job`: checks between fields, and every default.

`Values` are the fields as `kinds` read them, from a file, the command line, or one laid over the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from windlass.core.job import Job, Launcher, RestartPolicy, Role, Toleration
from windlass.core.resources import CPU, GPU, MEMORY
from windlass.jobs.command import is_standalone, launcher_of, procs_of, script_of, words_of
from windlass.jobs.names import valid_name
from windlass.jobs.submission import Submission

Values: TypeAlias = Mapping[str, Any]
FieldPath: TypeAlias = tuple[str | int, ...]

POLICY_NAMES = {
    "user": "user_limit",
    "infrastructure": "infrastructure_limit",
    "backoff": "backoff_base",
    "backoff_max": "backoff_max",
    "healthy_after": "healthy_after",
    "retryable_exit_codes": "retryable_exit_codes",
    "fatal_exit_codes": "fatal_exit_codes",
}
"""Fields of `restart` and what `core.RestartPolicy` calls them."""


def check(values: Values) -> Iterator[tuple[FieldPath, str]]:
    """What is wrong between fields that are right one by one: (field, message)."""
    if "nodes" in values and "roles" in values:
        yield ("nodes",), "nodes is for a job of one role; with roles write replicas in each of them"
    if "restarts" in values and "user" in values.get("restart", {}):
        yield ("restarts",), "restarts and restart.user say the same thing; keep one of them"
    yield from _check_commands(values)


def _check_commands(values: Values) -> Iterator[tuple[FieldPath, str]]:
    for name, role in roles_of(values).items():
        path: FieldPath = ("roles", name) if "roles" in values else ()
        if "command" not in role:
            whose = f"role {name!r}" if path else "the job"
            yield path, f"{whose} has no command; write for example command: python train.py"
        elif not role["command"][0]:
            yield ("command",), "the command's first word is empty; write for example python train.py"
        elif role["replicas"] > 1 and is_standalone(words_of(role["command"])):
            place = path if path and "command" in values["roles"][name] else ()
            yield (
                (*place, "command"),
                "torchrun --standalone stays on one node; leave it out, Windlass tells torchrun where the others are",
            )


def roles_of(values: Values) -> dict[str, dict[str, Any]]:
    """Each role's own fields over the job's, which are its defaults; env, selector and tolerations add up."""
    shared = {name: values[name] for name in _SHARED if name in values}
    if "roles" not in values:
        return {"worker": {**shared, "replicas": values.get("nodes", 1)}}
    return {name: _over(shared, own) for name, own in values["roles"].items()}


_SHARED = ("gpus", "procs", "cpus", "mem", "command", "env", "selector", "tolerations")


def _over(shared: Values, own: Values) -> dict[str, Any]:
    merged = {"replicas": 1, **shared, **own}
    for name in ("env", "selector"):
        merged[name] = {**shared.get(name, {}), **own.get(name, {})}
    merged["tolerations"] = [*shared.get("tolerations", ()), *own.get("tolerations", ())]
    return merged


def resolve(values: Values, *, base: str, user: str, source: str) -> Submission:
    """The whole job. `base`: the folder that workdir is relative to. `values` have passed `check`."""
    roles = roles_of(values)
    words = [words_of(role["command"]) for role in roles.values()]
    launcher = Launcher(values["launcher"]) if "launcher" in values else launcher_of(words[0])
    array, array_limit = values.get("array") or ((), 0)
    job = Job(
        name=values.get("name") or valid_name(script_of(words[0])),
        roles=tuple(_role(name, role, launcher) for name, role in roles.items()),
        launcher=launcher,
        restart=_restart(values),
        walltime=values.get("time"),
        after=tuple(dict.fromkeys(values.get("after", ()))),
        workdir=str(Path(base, values.get("workdir", ".")).expanduser()),
        user=user,
        labels=dict(values.get("labels", {})),
        **{name: values[name] for name in _AS_WRITTEN if name in values},
    )
    return Submission(job, array, array_limit, source)


_AS_WRITTEN = ("queue", "priority", "deadline", "ttl", "grace", "suspend")
"""Fields whose names and defaults are those of `core.Job`."""


def _role(name: str, role: Values, launcher: Launcher) -> Role:
    gpus = role.get("gpus", 0)
    told = procs_of(words_of(role["command"])) if launcher is Launcher.TORCHRUN else None
    procs = role.get("procs") or told or max(1, gpus)
    cpus = role.get("cpus", 0 if gpus else 1000 * procs)
    amounts = {CPU: cpus, MEMORY: role.get("mem") or 0, GPU: gpus}
    return Role(
        name=name,
        replicas=role["replicas"],
        procs=procs,
        resources={resource: amount for resource, amount in amounts.items() if amount},
        command=tuple(role["command"]),
        env=dict(role.get("env", {})),
        node_selector=dict(role.get("selector", {})),
        tolerations=tuple(Toleration(**toleration) for toleration in role.get("tolerations", ())),
    )


def _restart(values: Values) -> RestartPolicy:
    written = dict(values.get("restart", {}))
    if "restarts" in values:
        written["user"] = values["restarts"]
    policy: dict[str, Any] = {
        POLICY_NAMES[name]: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    return RestartPolicy(**policy)
