"""The job of a batch script: reads options and steps, chooses how ranks start, and names what is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from windlass.core.model.job import Launcher
from windlass.jobs.errors import InputError, Place, input_error
from windlass.jobs.imports.imported_job import ImportedJob, collect, imported_job
from windlass.jobs.imports.outcomes import Loss, Outcome, Setting
from windlass.jobs.slurm.batch_script import BatchScript, SbatchOption, is_batch_script, read_script
from windlass.jobs.slurm.gang_size import SIZE_OPTIONS, GangSize, Options, OptionValueError, read_size, size_fields
from windlass.jobs.slurm.option_fields import read_option
from windlass.jobs.slurm.sbatch_options import OPTIONS, full_name, is_known
from windlass.jobs.slurm.script_body import ScriptBody, body_losses, read_body
from windlass.jobs.slurm.script_command import script_command
from windlass.jobs.slurm.time_fields import TIME_OPTIONS, read_times
from windlass.jobs.syntax.command_line import launcher_of
from windlass.jobs.syntax.names import did_you_mean, valid_name
from windlass.jobs.syntax.text import STDIN, Text

MAX_SCRIPT = 100 * 1024
"""Bytes of a script: Linux limits one word of a command to 128 KiB."""
_HET = ("hetjob", "packjob")
"""Words on a line of their own that begin the next component of a heterogeneous job."""
_REQUEUE = ("--requeue", "--no-requeue")
_DOS = (
    r"Batch script contains DOS line breaks (\r\n) instead of expected UNIX line breaks (\n); convert it with dos2unix"
)


def import_script(
    text: Text, arguments: Sequence[str] = (), given: Sequence[SbatchOption] | None = None
) -> ImportedJob:
    """The job of a batch script with its arguments.

    `given`: options of the command line of sbatch, which win over those of the script. The script then needs none, and
    a wrong option of it is an error and no loss, as it is for sbatch.
    Raises InputError if this is no batch script, or if sbatch would refuse it.
    """
    if not (text.text.startswith("#!") if given is not None else is_batch_script(text)):
        problem = "this is no batch script: it begins with #!"
        problem += "" if given is not None else " and has a line that begins with #SBATCH"
        raise InputError([text.problem(problem, Place(1, 1))])
    if "\r\n" in text.text:
        raise InputError([text.problem(_DOS, Place(1, 1))])
    written = read_script(text)
    if given is not None and (unknown := [each for each in written.options if _is_unknown(each)]):
        raise InputError([text.problem(_describe_unknown(each), each.place) for each in unknown])
    script = _with_given(written, given or ())
    if not script.commands:
        raise InputError([text.problem("the script has no command after its options", Place(1, 1))])
    if len(text.text.encode()) > MAX_SCRIPT:
        problem = (
            f"the script is larger than {MAX_SCRIPT >> 10} KiB, which no command can hold; call it in a shorter one"
        )
        raise InputError([text.problem(problem, Place(1, 1))])
    try:
        return _import(script, arguments)
    except OptionValueError as error:
        problem = f"{error.option.name[:60]} {error}"
        if not error.option.place.line:
            raise input_error("command line", problem) from None
        raise InputError([text.problem(problem, error.option.place)]) from None


def _is_unknown(option: SbatchOption) -> bool:
    """Tells whether sbatch refuses an option of a script."""
    return not option.ignored and option.name not in _HET and not is_known(option.name)


def _describe_unknown(option: SbatchOption) -> str:
    hint = did_you_mean(option.name, OPTIONS)
    return f"unrecognized option {option.name[:60]!r}: correct or remove it{hint}"


def _with_given(script: BatchScript, given: Sequence[SbatchOption]) -> BatchScript:
    """The script with the options of a command line behind its own: in its first component, if it has several."""
    own = script.options
    end = next((number for number, each in enumerate(own) if each.name in _HET), len(own))
    decided = _REQUEUE if any(each.name in _REQUEUE for each in given) else ()
    kept = tuple(each for each in own[:end] if each.name not in decided)
    return replace(script, options=(*kept, *given, *own[end:]))


def _import(script: BatchScript, arguments: Sequence[str]) -> ImportedJob:
    """The job, in the order in which its parts depend on each other."""
    body = read_body(script)
    fields: dict[str, Any] = {"name": _default_name(script.text.source)}
    losses = [
        Loss(each.place, each.name[:60], "sbatch does not read it after a command")
        for each in script.options
        if each.ignored
    ]
    # 1. Options that mean the same whatever the others are; then the times.
    components = _components(script)
    collect(_plain_options(components), fields, losses)
    collect(read_times(components[0]), fields, losses)
    collect(_singleton(fields, components[0]), fields, losses)
    # 2. The size of each component, and how its ranks start.
    sizes = list[GangSize]()
    for options in components:
        size, lost = read_size(options)
        sizes.append(_started(size, body))
        losses += lost
    launcher = choose_launcher(sizes, body)
    # 3. One role for each component.
    roles = list[dict[str, Any]]()
    for number, (size, options) in enumerate(zip(sizes, components, strict=True)):
        role: dict[str, Any] = {}
        collect(size_fields(size, options), role, losses)
        place = (number, len(components))
        command, env = _direct_words(body, place), _direct_env(body, place)
        command = command or script_command(body, fields, size, options, place)
        roles.append({**role, **_ranks(size, body, launcher), **env, "command": [*command, *arguments]})
    collect(_outside(fields, body, roles), fields, losses)
    if not body.direct or launcher_of(body.direct.words) is not launcher:
        fields["launcher"] = str(launcher)
    # 4. Commands that differ.
    losses += body_losses(body, sizes[0].nodes, sizes[0].tasks)
    return imported_job(fields, losses)


def _singleton(fields: Mapping[str, Any], options: Options) -> Iterator[Outcome]:
    """The dependency on earlier jobs of the job's name; the members of an array run one at a time."""
    dependency = options.get("--dependency")
    if dependency is None or "singleton" not in re.split("[,?]", dependency.value):
        return
    yield Setting("after", [*fields.get("after", ()), f"earlier:{fields['name']}"])
    if "array" in fields:
        yield Setting("array", f"{fields['array'].partition('%')[0]}%1")


def _direct_words(body: ScriptBody, place: tuple[int, int]) -> tuple[str, ...]:
    """The words of a component's command, if the body is a direct command; else ()."""
    number, count = place
    if body.direct and len(body.direct.components) == count:
        return body.direct.components[number].words
    return body.direct.words if body.direct and count == 1 else ()


def _direct_env(body: ScriptBody, place: tuple[int, int]) -> dict[str, Any]:
    """The variables of a component's command as a field of its role."""
    number, count = place
    direct = body.direct.components if body.direct else ()
    return {"env": dict(direct[number].env)} if len(direct) == count and direct[number].env else {}


def _default_name(source: str) -> str:
    return "job" if source in (STDIN, "<stdin>") else valid_name(PurePath(source).stem)


def _components(script: BatchScript) -> list[Options]:
    """Options of each component of a heterogeneous job; a single one otherwise. Later ones inherit nothing."""
    found: list[Options] = [{}]
    for option in (each for each in script.options if not each.ignored):
        if option.name in _HET:
            found.append({})
        else:
            name = full_name(option.name) or option.name
            found[-1][name] = replace(option, name=name)
    return found


def _plain_options(components: Sequence[Options]) -> Iterator[Outcome]:
    """Outcomes of the options that other modules do not read; those of later components are lost where they differ."""
    for number, options in enumerate(components):
        for name, option in options.items():
            if name in SIZE_OPTIONS or name in TIME_OPTIONS:
                continue
            if not number:
                yield from _outcomes(option)
            elif name not in components[0] or option.value != components[0][name].value:
                yield Loss(option.place, name, "components of a job share it; that of the first one holds")


def _outcomes(option: SbatchOption) -> list[Outcome]:
    try:
        return list(read_option(option))
    except ValueError as error:
        raise OptionValueError(option, str(error)) from None


def _started(size: GangSize, body: ScriptBody) -> GangSize:
    """The size with the tasks that the body starts: one process on each node where no step starts several."""
    if body.direct and body.direct.components:
        return size
    if body.direct is None or body.direct.starts_ranks:
        step = next(iter(body.gang_steps), None)
        if step is None:
            return replace(size, tasks=1)
        own, total = step.value("ntasks-per-node"), step.value("n", "ntasks")
        if own.isdecimal() and int(own):
            return replace(size, tasks=int(own))
        if total.isdecimal() and int(total) >= size.nodes and int(total) % size.nodes == 0:
            return replace(size, tasks=int(total) // size.nodes)
        return size
    return replace(size, tasks=1)


def choose_launcher(sizes: Sequence[GangSize], body: ScriptBody) -> Launcher:
    """TORCHRUN where one process of each node starts ranks of its own, or sees several GPUs; else PLAIN."""
    if any(size.tasks > 1 for size in sizes) or (body.direct and body.direct.starts_ranks):
        return Launcher.PLAIN
    starts_own = body.has_launcher or any(size.gpus.number > 1 for size in sizes)
    return Launcher.TORCHRUN if starts_own else Launcher.PLAIN


def _ranks(size: GangSize, body: ScriptBody, launcher: Launcher) -> dict[str, Any]:
    """The field `procs`, where it is not the default: one for each GPU."""
    procs = size.tasks
    if launcher is Launcher.TORCHRUN and body.has_launcher:
        stated = body.direct.procs if body.direct else None
        procs = stated or body.launcher_procs or max(1, size.gpus.number)
    return {} if procs == max(1, size.gpus.number if not size.gpus.mig_profile else 0) else {"procs": procs}


def _outside(fields: Mapping[str, Any], body: ScriptBody, roles: Sequence[Mapping[str, Any]]) -> Iterator[Outcome]:
    """The fields of a single role stand in the job itself; variables and folder of a direct command too."""
    if body.direct and (len(roles) == 1 or len(body.direct.components) == len(roles)):
        if body.direct.env:
            yield Setting("env", dict(body.direct.env))
        if body.direct.workdir:
            yield Setting("workdir", str(PurePath(fields.get("workdir", ""), body.direct.workdir)))
        if body.direct.restarts:
            yield Setting("restart", {"user": body.direct.restarts})
    if len(roles) == 1:
        yield from (Setting(name, value) for name, value in roles[0].items())
    else:
        names = [each.role for each in body.direct.components] if body.direct else []
        names = names if len(set(names)) == len(roles) else [f"group-{number}" for number in range(len(roles))]
        yield Setting("roles", {name: _as_role(role) for name, role in zip(names, roles, strict=True)})


def _as_role(role: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a job of one role as those of a role."""
    return {"replicas" if name == "nodes" else name: value for name, value in role.items()}
