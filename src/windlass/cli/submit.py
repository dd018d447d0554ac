"""`windlass submit`: hand jobs in and print their ids."""

from __future__ import annotations

from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.handing import ON_KUBERNETES, facts, here_by_agents, submissions, tell_idle
from windlass.cli.options import (
    SHIP_ELSEWHERE,
    FileOption,
    ShipOption,
    ValidateOption,
    Words,
    refuse_validate,
    takes_job_options,
)
from windlass.cli.output import Format, FormatOption, as_json, as_line, as_yaml
from windlass.cli.place import NamespaceOption, OnOption, StateOption, context_of, state_folder
from windlass.jobs.options import RunOptions
from windlass.server.attach import daemon_of


@takes_job_options
def submit(
    options: RunOptions,
    words: Words = None,
    file: FileOption = None,
    output: FormatOption = Format.TABLE,
    ship: ShipOption = "",
    validate: ValidateOption = None,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Hand in a job, an array or a file of jobs, all or none, and print their ids. Needs a daemon, or a cluster."""
    context = context_of(on, namespace)
    if context is not None:
        from windlass.cli.cluster.handing import Given  # noqa: PLC0415 - loads a cluster's libraries
        from windlass.cli.cluster.running import submit_there  # noqa: PLC0415

        ids, code = submit_there(context, namespace, Given(options, words or [], file, ship, validate))
        _show(ids, output)
        return code
    if ship:
        raise UsageError(SHIP_ELSEWHERE)
    refuse_validate(validate, ON_KUBERNETES)
    handed = here_by_agents(submissions(options, words or [], file))
    tell_idle(handed)
    _show(daemon_of(state_folder(state)).submit(handed, **facts()), output)
    return ExitCode.OK


def _show(ids: list[str], output: Format) -> None:
    if output is Format.JSON:
        print(as_json(ids))
    elif output is Format.JSONL:
        print(*map(as_line, ids), sep="\n")
    elif output is Format.YAML:
        print(as_yaml(ids), end="")
    else:
        print(*ids, sep="\n")
