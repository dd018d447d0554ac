"""Submits a job to Slurm: its batch script, and what only the command line of sbatch can say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import takewhile

from windlass.backends.slurm.commands import CommandRunner
from windlass.backends.slurm.errors import SlurmError, SlurmFailure
from windlass.core.model.job import Condition, Dependency, Launcher
from windlass.jobs.description.submission import Submission
from windlass.jobs.slurm.dependency_kinds import DEPENDENCY_KINDS
from windlass.jobs.slurm.rendered_script import render_script

_NUMBER = re.compile(r"([0-9]{1,10})(?:;.*)?\s*")
_SAID_HERE = "after:"
"""Field that a script alone cannot say, and sbatch can."""
_FRESH_OUTPUT = (
    '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || '
    '[ "$(basename "$(readlink /proc/$$/fd/1)")" != "slurm-NUMBER.out" ] || : > /dev/stdout'
)
"""Empties the job's own output at its first start: an older Slurm may have had a job of the same number here."""
_MEMBER, _JOB = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID", "$SLURM_JOB_ID"
LABELS = {"SLURM_LABELIO": "1"}
"""srun writes the number of its task before each line of output."""


def submit_job(run: CommandRunner, submission: Submission, key: str, number_of: Callable[[str], str]) -> str:
    """Submits a job or an array and returns its number.

    `key`: marks the job in its comment, so that a repeated submission finds it. `number_of`: the number of a job on
    which this one depends. Raises SlurmError, and InputError for a job that no script can say.
    """
    job = submission.job
    number = _MEMBER if submission.array else _JOB
    script = _with_line(render_script(submission).text, _FRESH_OUTPUT.replace("NUMBER", number))
    words = ["sbatch", "--parsable", f"--comment={key}"]
    if job.after:
        words.append(f"--dependency={_dependencies(submission, number_of)}")
    said = run(words, script, task_labels(submission))
    found = _NUMBER.fullmatch(said.strip())
    if found is None:
        raise SlurmError(SlurmFailure.FAILED, "sbatch printed no number of a job", "look for the job with: squeue --me")
    return found[1]


def _with_line(script: str, line: str) -> str:
    """The script with a line after its options, which come first."""
    lines = script.splitlines(keepends=True)
    options = list(takewhile(lambda each: each.startswith("#"), lines))
    return "".join([*options, f"{line}\n", *lines[len(options) :]])


def task_labels(submission: Submission) -> Mapping[str, str]:
    """Variables by which lines of output carry their rank, where each task of srun is one."""
    return LABELS if submission.job.launcher is Launcher.PLAIN else {}


def losses_of(submission: Submission) -> list[str]:
    """Fields of the job that have no effect on Slurm, with the reason."""
    return [loss for loss in render_script(submission).losses if not loss.startswith(_SAID_HERE)]


def _dependencies(submission: Submission, number_of: Callable[[str], str]) -> str:
    return ",".join(_dependency(submission.job.name, each, number_of) for each in submission.job.after)


def _dependency(name: str, wanted: Dependency, number_of: Callable[[str], str]) -> str:
    if wanted.condition is not Condition.EARLIER:
        return f"{DEPENDENCY_KINDS[wanted.condition]}:{number_of(wanted.job_id)}"
    if wanted.job_id != name:
        fix = f"write earlier:{name}, or any: and the job"
        raise SlurmError(SlurmFailure.REFUSED, f"Slurm waits only for earlier jobs of the own name, {name}", fix)
    return DEPENDENCY_KINDS[wanted.condition]
