"""`windlass submit`: hand jobs in and print their ids."""

from __future__ import annotations

from windlass.cli.exit_codes import ExitCode
from windlass.cli.handing import facts, submissions, tell_idle
from windlass.cli.options import FileOption, Words, takes_job_options
from windlass.cli.output import Format, FormatOption, as_json, as_line, as_yaml
from windlass.cli.place import StateOption, state_folder
from windlass.jobs.options import RunOptions
from windlass.server.attach import daemon_of


@takes_job_options
def submit(
    options: RunOptions,
    words: Words = None,
    file: FileOption = None,
    output: FormatOption = Format.TABLE,
    state: StateOption = None,
) -> int:
    """Hand in a job, an array or a file of jobs, all or none, and print their ids. Needs a daemon."""
    handed = submissions(options, words or [], file)
    tell_idle(handed)
    ids = daemon_of(state_folder(state)).submit(handed, **facts())
    if output is Format.JSON:
        print(as_json(ids))
    elif output is Format.JSONL:
        print(*map(as_line, ids), sep="\n")
    elif output is Format.YAML:
        print(as_yaml(ids), end="")
    else:
        print(*ids, sep="\n")
    return ExitCode.OK
