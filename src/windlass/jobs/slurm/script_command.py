"""The command of a rank that runs a whole batch script: bash, the environment of Slurm, and the script unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.jobs.slurm.gang_size import GangSize, Options
from windlass.jobs.slurm.script_body import ScriptBody
from windlass.jobs.slurm.shell_environment import bash_prelude
from windlass.jobs.syntax.array_indexes import parse_array


def script_command(
    body: ScriptBody, fields: Mapping[str, Any], size: GangSize, options: Options, component: tuple[int, int]
) -> tuple[str, ...]:
    """The words of the command; $0 is the path of the script, or the name of the job.

    `component`: number of a heterogeneous job's component, and how many there are.
    """
    first_node_only = size.nodes > 1 and not body.gang_steps
    variables = dict(_variables(fields, size, options, component))
    program = "bash", *(body.interpreter[1:] if body.is_shell else ())
    interpreter = "" if body.is_shell else body.interpreter[0]
    prelude = bash_prelude(variables, first_node_only=first_node_only, interpreter=interpreter)
    source = body.script.text.source
    title = source if source.startswith("/") and source.isprintable() else fields["name"]
    return (*program, "-c", prelude, title, body.script.text.text)


def _variables(
    fields: Mapping[str, Any], size: GangSize, options: Options, component: tuple[int, int]
) -> Iterator[tuple[str, str]]:
    """Variables whose values the options state."""
    yield "SLURM_JOB_NAME", options["--job-name"].value if "--job-name" in options else fields["name"]
    for variable, name in _AS_WRITTEN.items():
        if name in options:
            yield variable, options[name].value
    if size.cpus:
        yield "SLURM_CPUS_ON_NODE", str(size.cpus)
        yield "SLURM_JOB_CPUS_PER_NODE", str(size.cpus)
    if size.gpus.number:
        yield "SLURM_GPUS_ON_NODE", str(size.gpus.number)
    if size.memory:
        yield "SLURM_MEM_PER_NODE", str(size.memory >> 20)
    if "array" in fields:
        indexes, _ = parse_array(fields["array"])
        yield "SLURM_ARRAY_TASK_COUNT", str(len(indexes))
        yield "SLURM_ARRAY_TASK_MIN", str(indexes[0])
        yield "SLURM_ARRAY_TASK_MAX", str(indexes[-1])
    number, components = component
    if components > 1:
        yield "SLURM_HET_SIZE", str(components)
        yield "SLURM_HET_GROUP", str(number)


_AS_WRITTEN = {
    "SLURM_JOB_PARTITION": "--partition",
    "SLURM_JOB_ACCOUNT": "--account",
    "SLURM_JOB_QOS": "--qos",
    "SLURM_CPUS_PER_TASK": "--cpus-per-task",
    "SLURM_GPUS": "--gpus",
    "SLURM_GPUS_PER_NODE": "--gpus-per-node",
    "SLURM_GPUS_PER_TASK": "--gpus-per-task",
    "SLURM_MEM_PER_CPU": "--mem-per-cpu",
}
