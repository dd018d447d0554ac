"""The verb `scontrol`: shows and changes jobs with the words of Slurm's command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.slurm.partitions import partition_names, read_partitions
from windlass.cli.target import LOCAL, controller_client, record_source, resolve_context
from windlass.cli.target_options import OnOption, StateOption
from windlass.cli.verbs.slurm_listings import MAX_JOBS, LongNamespace, is_named
from windlass.server.errors import ApiError, ErrorCode, error_from_json

_WORDS = "show hold release suspend resume requeue update"
_ACTIONS = {
    "hold": ("suspend",),
    "suspend": ("suspend",),
    "release": ("resume",),
    "resume": ("resume",),
    "requeue": ("suspend", "resume"),
}
"""Word → actions on the job, in order."""
_UPDATED = "TimeLimit, Priority, Nice, StartTime"
Row = dict[str, Any]


def scontrol(
    words: Annotated[list[str], typer.Argument(metavar=f"{'|'.join(_WORDS.split())} [ARGS]...", help="What to do.")],
    one_line: Annotated[bool, typer.Option("-o", "--oneliner", help="A line for each record.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """Show jobs, nodes, partitions and host lists, and change jobs, as Slurm's scontrol does."""
    target = on, namespace, state
    word, *rest = words
    if word == "show":
        return _show(rest, target, one_line=one_line, as_json=as_json)
    if word in _ACTIONS:
        return _act(word, _ids(rest), target)
    if word == "update":
        return _update(rest, target)
    raise UsageError(f"scontrol: there is no command {word[:40]!r}\ncommands are {_WORDS.replace(' ', ', ')}")


# --- show -------------------------------------------------------------------------------------------


def _show(words: Sequence[str], target: tuple[Any, ...], *, one_line: bool, as_json: bool) -> int:
    """Prints the records of one kind, or the hosts of a list."""
    what, names = (words[0].lower() if words else ""), words[1:]
    if what in ("hostnames", "hostlist", "hostlistsorted"):
        _print_hosts(what, names)
        return ExitCode.OK
    from windlass.cli.slurm import control_records as records  # noqa: PLC0415 - loads the core

    kinds: dict[str, tuple[Callable[..., list[Row]], Callable[[Row], records.Record]]] = {
        "job": (_jobs, records.job_record),
        "node": (_nodes, records.node_record),
        "partition": (_queues, records.partition_record),
    }
    kind = what.removesuffix("s")
    if kind not in kinds:
        shown = "job, node, partition, hostnames and hostlist"
        raise UsageError(f"scontrol: show has no entity {what[:40]!r}\nentities are {shown}")
    read, make = kinds[kind]
    found = [make(row) for row in read(names[0] if names else "", *target)]
    if as_json:
        print(json.dumps({f"{kind}s": [dict(pair for line in record for pair in line) for record in found]}, indent=2))
        return ExitCode.OK
    for record in found:
        print(records.record_text(record, one_line=one_line))
    return ExitCode.OK


def _print_hosts(what: str, names: Sequence[str]) -> None:
    """Prints the names of a list, or the list of names; without any, those of the allocation."""
    from windlass.jobs.slurm.hostlist import compress_hosts, expand_hosts  # noqa: PLC0415

    given = ",".join(names) or os.environ.get("SLURM_JOB_NODELIST", "")
    try:
        hosts = expand_hosts(given)
    except ValueError as error:
        raise UsageError(f"scontrol: {error}") from None
    if what == "hostnames":
        print(*hosts, sep="\n")
    else:
        print(compress_hosts(sorted(hosts) if what == "hostlistsorted" else hosts))


def _jobs(word: str, *target: Any) -> list[Row]:
    from windlass.cli.slurm.control_records import JOB_FIELDS  # noqa: PLC0415 - loads the core

    found = record_source(*target).jobs(all="True" if word else "", limit=MAX_JOBS, fields=",".join(JOB_FIELDS))
    chosen = [row for row in found if not word or is_named(row, word)]
    if word and not chosen:
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"Invalid job id specified: {word[:60]}", "windlass sacct lists all jobs")
    return chosen


def _nodes(word: str, *target: Any) -> list[Row]:
    from windlass.jobs.slurm.hostlist import expand_hosts  # noqa: PLC0415

    client = controller_client(*target)
    found, partitions = client.nodes(), partition_names(read_partitions(client))
    names = set(expand_hosts(word)) if word else {node["name"] for node in found}
    if unknown := names - {node["name"] for node in found}:
        raise UsageError(f"Node {min(unknown)[:60]} not found\nwindlass sinfo -N lists nodes")
    return [{**node, "partitions": partitions} for node in found if node["name"] in names]


def _queues(word: str, *target: Any) -> list[Row]:
    found = [queue for queue in read_partitions(controller_client(*target)) if word in ("", queue["name"])]
    if word and not found:
        raise UsageError(f"Partition {word[:60]} not found\nwindlass sinfo -s lists partitions")
    return found


# --- changes ----------------------------------------------------------------------------------------


def _ids(words: Sequence[str]) -> list[str]:
    """Jobs by commas or as words, each also with JobId= before it."""
    found = [each for word in words for each in word.lower().removeprefix("jobid=").split(",") if each]
    if not found:
        raise UsageError("scontrol: no job is named\nwindlass squeue lists jobs")
    return found


def _act(word: str, ids: Sequence[str], target: tuple[Any, ...]) -> int:
    """Applies the actions of a word; prints nothing but errors."""
    client = controller_client(*target)
    named = [_full_id(client, each) for each in ids]
    errors: list[ApiError] = []
    for verb in _ACTIONS[word]:
        done = client.act_on_all(verb, named, by=current_user())
        errors += [error_from_json({"error": error}, 400) for error in done["errors"]]
        named = [row["id"] for row in done["jobs"]]
        if not named:
            break
    for error in errors:
        print(f"windlass: {error}", file=sys.stderr)
    return ExitCode.FAILED if errors else ExitCode.OK


def _full_id(client: Any, word: str) -> str:
    """The id of a job that is named by its number; any other word unchanged."""
    if not word.isdecimal():
        return word
    found = client.jobs(limit=MAX_JOBS, fields="id,number,array")
    return next((row["array"] or row["id"] for row in found if is_named(row, word)), word)


def _update(words: Sequence[str], target: tuple[Any, ...]) -> int:
    """Changes a job: `JobId=` and the new values."""
    pairs = {name.lower(): value for name, _, value in (word.partition("=") for word in words)}
    job = pairs.pop("jobid", "")
    if not job or not pairs:
        raise UsageError(f"scontrol: update needs JobId=ID and new values\nvalues are {_UPDATED}")
    changes = _changes(pairs)
    if resolve_context(target[0], target[1]) is not None:
        raise UsageError(
            f"scontrol: update changes jobs of this machine only\nadd --on {LOCAL}, or edit the job with kubectl"
        )
    client: Any = controller_client(*target)
    client.update(_full_id(client, job), **changes)
    return ExitCode.OK


def _changes(pairs: dict[str, str]) -> dict[str, int]:
    """New values by their names in the API. Raises UsageError for a name that cannot be changed, or a wrong value."""
    from windlass.jobs.description.begin_time import read_begin  # noqa: PLC0415
    from windlass.jobs.slurm.option_values import parse_time_limit  # noqa: PLC0415

    changes: dict[str, int] = {}
    for name, value in pairs.items():
        try:
            if name == "timelimit":
                changes["walltime"] = parse_time_limit(value) or 0
            elif name in ("priority", "nice"):
                changes["priority"] = int(value) * (1 if name == "priority" else -1)
            elif name == "starttime":
                changes["begin"] = read_begin(value)
            else:
                raise UsageError(f"scontrol: {name[:40]} of a job cannot be changed\nvalues are {_UPDATED}")
        except ValueError:
            raise UsageError(
                f"scontrol: {name}={value[:40]} is no valid value\nTimeLimit=1:00:00, Priority=10, StartTime=now+1hour"
            ) from None
    return changes
