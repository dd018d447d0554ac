"""Reads jobs from a command line or a job file, and collects what is sent with them to the API."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.core.model.job import Launcher
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.description.submission import Submission
from windlass.launch.agent import entry_of

_JOB_FILES = (".yaml", ".yml")
_SCRIPTS = (".py", ".sh")
ON_KUBERNETES = "--on kubernetes"


def read_submissions(
    options: RunOptions,
    words: Sequence[str],
    file: str | None,
    *,
    elsewhere: bool = False,
    for_manifests: str = ON_KUBERNETES,
) -> list[Submission]:
    """Returns the jobs of a command line: those of a file (`-f`, or the first word), or one job from a command.

    `elsewhere`: the command runs in an image, without the files of this machine. `for_manifests`: the option with which
    the verb accepts manifests. Raises UsageError and InputError.
    """
    file, words = split_job_file(words, file)
    _refuse_folder(words)
    command = image_command(words) if elsewhere else local_command(words)
    if file is not None:
        from windlass.jobs.description.job_file import load  # noqa: PLC0415 - loads the YAML parser

        return load(file, options, command, cwd=current_folder(), user=current_user(), for_manifests=for_manifests)
    if not command:
        raise UsageError("nothing to run\nwrite a command (windlass run -N 2 -- python train.py) or a file (job.yaml)")
    return [from_options(options, command, cwd=current_folder(), user=current_user())]


def print_note(text: str) -> None:
    """Prints a note about a job on stderr."""
    print(f"windlass: {text}", file=sys.stderr)


def for_this_machine(submissions: Sequence[Submission], note: Callable[[str], None] = print_note) -> list[Submission]:
    """Returns the jobs, each with its launcher on this machine; notes fields that have no effect here."""
    warn_unused_fields(submissions, note)
    return [with_network(with_launcher(each), note) for each in submissions]


def with_network(submission: Submission, note: Callable[[str], None] = print_note) -> Submission:
    """Adds the variables of the network profile of each role, below those of the job; notes what `auto` has chosen."""
    if not any(role.network for role in submission.job.roles):
        return submission
    from windlass.cli.local_network import local_request  # noqa: PLC0415 - rarely needed
    from windlass.hardware.network.addition import environment_of  # noqa: PLC0415

    roles, notes = [], dict[str, None]()
    for role in submission.job.roles:
        request, remark = local_request(role.network)
        notes |= {remark: None} if remark else {}
        env = environment_of(request) if request else {}
        roles.append(replace(role, env={**env, **role.env}))
    for text in notes:
        note(f"{submission.job.name}: {text}")
    return replace(submission, job=replace(submission.job, roles=tuple(roles)))


def with_launcher(submission: Submission) -> Submission:
    """Selects the agent as launcher of a job on this machine if its ranks import torch, unless a launcher is given."""
    job = submission.job
    if submission.is_launcher_explicit or job.launcher is not Launcher.PLAIN:
        return submission
    if not any(entry_of(role.command) for role in job.roles):
        return submission
    from windlass.backends.local.launcher_choice import choose_launcher  # noqa: PLC0415 - loads Python's parser

    path = job.roles[0].env.get("PATH") or os.environ.get("PATH", os.defpath)
    return replace(submission, job=replace(job, launcher=choose_launcher(job, path)))


def refuse_schedules(submissions: Sequence[Submission], verb: str, fix: str = "submit it with windlass submit") -> None:
    """Raises UsageError if a job has a schedule, which `verb` cannot keep."""
    for submission in submissions:
        if submission.schedule is not None:
            raise UsageError(
                f"{submission.job.name} has a schedule (cron), and {verb} is for one run\n{fix}, or leave out cron"
            )


def warn_unused_fields(submissions: Sequence[Submission], note: Callable[[str], None] = print_note) -> None:
    """Notes the fields that have no effect on this machine, a line for each job that has some."""
    for submission in submissions:
        roles = submission.job.roles
        unused = [name for name in ("image", "pod") if any(getattr(role, name) for role in roles)]
        if unused:
            verb = "has" if len(unused) == 1 else "have"
            names = " and ".join(unused)
            note(f"{submission.job.name}: {names} {verb} no effect on this machine")


def split_job_file(words: Sequence[str], file: str | None) -> tuple[str | None, Sequence[str]]:
    """Returns the job file, which the first word may name, and the remaining words."""
    if file is None and words and (words[0].endswith(_JOB_FILES) or words[0] == "-"):
        return words[0], words[1:]
    return file, words


def _refuse_folder(words: Sequence[str]) -> None:
    folder = Path(words[0]) if words else None
    if folder is not None and "/" in words[0] and folder.is_dir():
        inside = folder / "job.yaml"
        hint = f"did you mean {inside}?" if inside.is_file() else "write a command or a file (job.yaml)"
        raise UsageError(f"{folder} is a folder\n{hint}")


def check_program(options: RunOptions, words: Sequence[str], file: str | None) -> None:
    """Raises UsageError if a command's first word names a file that does not exist, or one that cannot be run.

    A file is a path, a .py or .sh file, or any other file of the job's folder whose name is no program on PATH.

    The folder of a job file's command is in the file, and a job that waits for others may need a file that they write:
    these are not checked.
    """
    file, words = split_job_file(words, file)
    if file is not None or options.after or not words:
        return
    is_path = "/" in words[0]
    if not is_path and shutil.which(words[0]):
        return
    program = Path(current_folder(), Path(options.workdir or "").expanduser(), words[0])
    if (is_path or words[0].endswith(_SCRIPTS)) and not program.exists():
        raise UsageError(f"there is no file {program}\ncorrect its path, or the job's folder (--workdir)")
    if program.is_file() and not words[0].endswith(".py"):
        _check_executable(program, words[0], is_path=is_path)


def _check_executable(program: Path, word: str, *, is_path: bool) -> None:
    if not os.access(program, os.X_OK):
        if _is_script(program):
            fix = f"name its interpreter (sh {word}), or make it executable (chmod +x {program})"
        else:
            fix = "write a command (python train.py) or a job file (job.yaml)"
        raise UsageError(f"{program} is no program: it is not executable\n{fix}")
    if not is_path:
        raise UsageError(f"{word} is no program on PATH, but a file in the job's folder\nwrite ./{word}")


def _is_script(program: Path) -> bool:
    if program.suffix == ".sh":
        return True
    try:
        with program.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def local_command(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the command; a Python script that is not executable is run by the interpreter on PATH."""
    if words and words[0].endswith(".py") and not os.access(words[0], os.X_OK):
        return (shutil.which("python") or shutil.which("python3") or sys.executable, *words)
    return tuple(words)


def image_command(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the command for an image; a Python script is run by the image's interpreter."""
    return ("python", *words) if words and words[0].endswith(".py") else tuple(words)


def current_folder() -> str:
    """Returns the current folder. Raises UsageError if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise UsageError("the current folder no longer exists\nchange to one that does") from None


def submission_context() -> dict[str, Any]:
    """Returns what is sent with a submission: the environment that its ranks inherit, and its idempotency key."""
    return {"environment": _environment(), "key": os.urandom(16).hex()}


def _environment() -> dict[str, str]:
    """Returns the variables of this process that are valid text, except the secret of a gang: it is stored nowhere."""
    names = [name for name in os.environ if name.isprintable() and name != wire.GANG_SECRET]
    return {name: os.environ[name] for name in names if _is_text(os.environ[name])}


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def owner_process() -> str:
    """Returns a description of this process, as the owner of a job that must not outlive it."""
    from windlass.backends.local.client_watch import process_identity  # noqa: PLC0415 - loads asyncio; a client of a daemon needs none

    return process_identity(os.getpid())
