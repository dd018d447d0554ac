"""Makes a complete `core.Job` from the fields that were written: checks between fields, and every default.

`Values` are the fields as `value_types` reads them, from a file, the command line, or both merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from windlass import wire
from windlass.core.model.job import Job, Launcher, RestartPolicy, Role, Toleration, TopologyRequest, VerdictUse
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, MEMORY
from windlass.jobs.description.agent_command import under_agent
from windlass.jobs.description.begin_time import check_begin
from windlass.jobs.description.mesh import mesh_mismatch
from windlass.jobs.description.schedule_fields import check_schedule, read_schedule
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import FieldPath
from windlass.jobs.syntax.command_line import is_standalone, launcher_of, procs_of, script_of, words_of
from windlass.jobs.syntax.names import valid_name

Values: TypeAlias = Mapping[str, Any]

POLICY_NAMES = {
    "user": "user_limit",
    "infrastructure": "infrastructure_limit",
    "backoff": "backoff_base",
    "backoff_max": "backoff_max",
    "healthy_after": "healthy_after",
    "retryable_exit_codes": "retryable_exit_codes",
    "fatal_exit_codes": "fatal_exit_codes",
    "verdict": "verdict",
}
"""Fields of `restart` with their names in `core.RestartPolicy`."""

MIG = "mig-"
"""Prefix of the names of resources that are MIG profiles."""
_GPU_WAYS = ("gpus", "gpu_share", "mig")


def check(values: Values) -> Iterator[tuple[FieldPath, str]]:
    """Faults between fields that are valid one by one: (field, message)."""
    if "nodes" in values and "roles" in values:
        yield ("nodes",), "nodes is for a job of one role; with roles write replicas in each of them"
    if values.get("elastic") and "roles" in values:
        yield ("elastic",), "elastic is for a job of one role; with roles write it in the one that is elastic"
    if "restarts" in values and "user" in values.get("restart", {}):
        yield ("restarts",), "restarts and restart.user say the same thing; keep one of them"
    yield from _check_sizes(values)
    yield from _check_commands(values)
    yield from _check_agent(values)
    yield from _check_meshes(values)
    yield from check_schedule(values)
    yield from check_begin(values)


def _check_sizes(values: Values) -> Iterator[tuple[FieldPath, str]]:
    """Sizes and GPUs may each be written in one way only, in the job and in each of its roles."""
    roles = values.get("roles", {})
    tables: list[tuple[FieldPath, str, Values]] = [((), "nodes", values)]
    tables += [(("roles", name), "replicas", role) for name, role in roles.items()]
    for path, size, table in tables:
        elastic = table.get("elastic")
        if elastic and size in table:
            yield (*path, "elastic"), f"elastic and {size} both say how many; keep one of them"
        if elastic and elastic["min"] > elastic["max"]:
            yield (*path, "elastic"), f"elastic expects min to be at most max, not {elastic['min']} > {elastic['max']}"
        ways = [way for way in _GPU_WAYS if table.get(way)]
        if len(ways) > 1:
            yield (*path, ways[1]), f"{ways[0]} and {ways[1]} are two ways to ask for GPUs; keep one of them"
    several = [name for name, role in roles.items() if role.get("elastic")]
    if len(several) > 1:
        yield ("roles", several[1], "elastic"), f"only one role can be elastic, and {several[0]!r} is"


def _check_commands(values: Values) -> Iterator[tuple[FieldPath, str]]:
    for name, role in roles_of(values).items():
        path: FieldPath = ("roles", name) if "roles" in values else ()
        if "command" not in role:
            whose = f"role {name!r}" if path else "the job"
            yield path, f"{whose} has no command; write for example command: python train.py"
        elif not role["command"][0]:
            yield ("command",), "the command's first word is empty; write for example python train.py"
        elif _size(role)[0] > 1 and is_standalone(words_of(role["command"])):
            place = path if path and "command" in values["roles"][name] else ()
            yield (
                (*place, "command"),
                "torchrun --standalone stays on one node; leave it out, Windlass tells torchrun where the others are",
            )


def _check_agent(values: Values) -> Iterator[tuple[FieldPath, str]]:
    """Tells whether an agent can start the ranks of every role."""
    if not values.get("agent"):
        return
    if values.get("launcher", Launcher.AGENT) != Launcher.AGENT:
        yield ("launcher",), f"launcher {values['launcher']} leaves nothing to the agent; leave it out"
    for name, role in roles_of(values).items():
        try:
            under_agent(role.get("command") or ("python", "train.py"), ())
        except ValueError as wrong:
            path: FieldPath = ("roles", name) if "command" in values.get("roles", {}).get(name, {}) else ()
            yield (*path, "command"), f"command {wrong} (agent: {values['agent']})"


def _check_meshes(values: Values) -> Iterator[tuple[FieldPath, str]]:
    """A mesh has as many ranks as its role; for an elastic role the script decides."""
    for name, role in roles_of(values).items():
        if (mesh := role.get("mesh")) and not role.get("elastic"):
            path: FieldPath = ("roles", name) if "mesh" in values.get("roles", {}).get(name, {}) else ()
            if wrong := mesh_mismatch(mesh, role.get("replicas", 1), _procs(role)):
                yield (*path, "mesh"), wrong


def roles_of(values: Values) -> dict[str, dict[str, Any]]:
    """The fields of each role over those of the job, which are its defaults; env, selector and tolerations add up."""
    shared = {name: values[name] for name in _SHARED if name in values}
    if "roles" not in values:
        return {"worker": {**shared, "replicas": values.get("nodes", 1), "elastic": values.get("elastic")}}
    return {name: _over(shared, own) for name, own in values["roles"].items()}


_SHARED = (
    *("gpus", "gpu_share", "mig", "procs", "mesh", "cpus", "mem", "command", "env", "image", "pod"),
    *("network", "selector", "tolerations", "whole_node", "affinity"),
)


def _over(shared: Values, own: Values) -> dict[str, Any]:
    if any(own.get(way) for way in _GPU_WAYS):  # its own request for GPUs replaces the job's
        shared = {name: value for name, value in shared.items() if name not in _GPU_WAYS}
    merged = {"replicas": 1, **shared, **own}
    for name in ("env", "selector"):
        merged[name] = {**shared.get(name, {}), **own.get(name, {})}
    merged["tolerations"] = [*shared.get("tolerations", ()), *own.get("tolerations", ())]
    return merged


def resolve(values: Values, *, base: str, user: str, source: str) -> Submission:
    """The whole job. `base`: the folder that workdir is relative to. `values` have passed `check`."""
    roles = roles_of(values)
    words = [words_of(role["command"]) for role in roles.values()]
    launcher = _launcher(values, words[0])
    array, array_limit = values.get("array") or ((), 0)
    job = Job(
        name=values.get("name") or valid_name(script_of(words[0])),
        roles=tuple(_role(name, role, launcher) for name, role in roles.items()),
        launcher=launcher,
        agent=values.get("agent") or "",
        restart=_restart(values),
        walltime=values.get("time"),
        after=tuple(dict.fromkeys(values.get("after", ()))),
        workdir=str(Path(base, values.get("workdir", ".")).expanduser()),
        user=user,
        labels=dict(values.get("labels", {})),
        topology=_topology(values.get("topology")),
        gpu_types=tuple(dict.fromkeys(values.get("gpu_type", ()))),
        avoid=tuple(dict.fromkeys(values.get("avoid", ()))),
        **{name: values[name] for name in _AS_WRITTEN if name in values},
    )
    return Submission(job, array, array_limit, source, "launcher" in values, read_schedule(values))


def _launcher(values: Values, words: Sequence[str]) -> Launcher:
    """The launcher as written; in pods with an agent, the agent."""
    if "launcher" in values:
        return Launcher(values["launcher"])
    return Launcher.AGENT if values.get("agent") else launcher_of(words)


_LIMITS = ("deadline", "start_timeout", "unreachable_grace", "ttl", "grace")
_AS_WRITTEN = ("queue", "priority", *_LIMITS, "begin", "suspend", "preemptible")
"""Fields whose names and defaults are those of `core.Job`."""


def _role(name: str, role: Values, launcher: Launcher) -> Role:
    devices = _devices(role)
    fewest, replicas = _size(role)
    procs = _procs(role, launcher)
    # A mesh on CPUs is for trying out: its ranks share the cores that there are.
    cpus = role.get("cpus", 0 if devices or role.get("mesh") else 1000 * procs)
    amounts = {CPU: cpus, MEMORY: role.get("mem") or 0, **devices}
    return Role(
        name=name,
        replicas=replicas,
        procs=procs,
        resources={resource: amount for resource, amount in amounts.items() if amount},
        command=tuple(role["command"]),
        env={**({wire.MESH: role["mesh"]} if role.get("mesh") else {}), **role.get("env", {})},
        image=role.get("image") or "",
        pod=role.get("pod", ""),
        network=role.get("network") or "",
        node_selector=dict(role.get("selector", {})),
        tolerations=tuple(Toleration(**toleration) for toleration in role.get("tolerations", ())),
        affinity=tuple(role.get("affinity", ())),
        whole_node=role.get("whole_node", False),
        min_replicas=fewest if role.get("elastic") else None,
        max_replicas=replicas if role.get("elastic") else None,
    )


def _procs(role: Values, launcher: Launcher | None = None) -> int:
    """Ranks of each replica: as written, by torchrun's own command line, or one for each GPU."""
    words = words_of(role["command"]) if role.get("command") else ()
    by_torchrun = words and (launcher or launcher_of(words)) is not Launcher.PLAIN
    by_option = procs_of(words) if by_torchrun else None
    return role.get("procs") or by_option or max(1, role.get("gpus", 0))


def _devices(role: Values) -> dict[str, int]:
    """Whole GPUs, a part of one, or a slice of one."""
    if share := role.get("gpu_share"):
        return {GPU_MILLI: share}
    if profile := role.get("mig"):
        return {f"{MIG}{profile}": 1}
    gpus = role.get("gpus", 0)
    return {GPU: gpus} if gpus else {}


def _size(role: Values) -> tuple[int, int]:
    """Minimum and maximum of replicas. An elastic role requests its maximum, and starts with fewer."""
    elastic = role.get("elastic")
    return (elastic["min"], elastic["max"]) if elastic else (role["replicas"], role["replicas"])


def _topology(written: Values | None) -> TopologyRequest | None:
    if written is None:
        return None
    return TopologyRequest(
        level=written["level"],
        required=not written.get("preferred", False),
        spread=written.get("spread", False),
        slice=written.get("slice", 0),
    )


def _restart(values: Values) -> RestartPolicy:
    written = dict(values.get("restart", {}))
    if "restarts" in values:
        written["user"] = values["restarts"]
    policy: dict[str, Any] = {
        POLICY_NAMES[name]: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    if "verdict" in policy:
        policy["verdict"] = VerdictUse(policy["verdict"])
    return RestartPolicy(**policy)
