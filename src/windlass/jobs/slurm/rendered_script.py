"""The batch script of a job: the same gang under Slurm, one srun with a task for each rank or each node."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.model.job import DEFAULT_QUEUE, Job, Launcher, Role
from windlass.core.model.resources import CPU, GPU, MEMORY
from windlass.core.model.steps import has_steps
from windlass.jobs.description.agent_command import under_agent
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.slurm.component_step import ComponentCommand, component_step, export_lines
from windlass.jobs.slurm.hostlist import compress_hosts
from windlass.jobs.slurm.rank_variables import (
    CODE_LINE,
    EXIT_LINE,
    IDENTITY_LINES,
    MEMBER_LINES,
    PROCS_EXPORT,
    RANK_LINES,
    RANK_SHELL,
    TORCHRUN_LINES,
    requeue_line,
)
from windlass.jobs.slurm.unsaid_fields import DEFAULT_GRACE, unsaid_fields
from windlass.jobs.syntax.array_indexes import format_array
from windlass.jobs.syntax.durations import clock_parts
from windlass.jobs.syntax.time_words import format_epoch

_AGENT = ("-m", "windlass.agent")


@dataclass(frozen=True, slots=True)
class RenderedScript:
    """A batch script, and what the job has that it cannot say."""

    text: str
    losses: tuple[str, ...]


def render_script(submission: Submission) -> RenderedScript:
    """The batch script of a job or of an array; of several roles that of a heterogeneous job. Raises InputError."""
    job = submission.job
    if len(job.roles) > 1:
        return _render_components(submission)
    role = job.roles[0]
    options = [*_identity(submission), *_size(job, role), *_times(job), *_restarts(job), *_placement(job, role)]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        *_exports(job, role, is_array=bool(submission.array)),
    ]
    step = f"srun --kill-on-bad-exit=1{_step_cpus(job, role)} {_command(job, role)}"
    if job.restart.user_limit:
        lines += [step, CODE_LINE, requeue_line(job.restart.user_limit), EXIT_LINE]
    else:
        lines.append(step)
    return RenderedScript("\n".join(lines) + "\n", tuple(unsaid_fields(job)))


def _render_components(submission: Submission) -> RenderedScript:
    """The script of a heterogeneous job with a component for each role, whose ranks one step starts."""
    job = submission.job
    if problem := _component_problem(submission):
        raise input_error(job.name, f"a heterogeneous batch job {problem}")
    lines = ["#!/bin/bash"]
    for number, role in enumerate(job.roles):
        own = [*_identity(submission), *_restarts(job)] if not number else ["hetjob", *_shared(job)]
        options = [*own, *_size(job, role), *_times(job), *_placement(job, role)]
        lines += [f"#SBATCH {option}" for option in options]
    lines += (*IDENTITY_LINES, *RANK_LINES)
    commands = [
        ComponentCommand(role.name, role.command, role.env, role.procs, cpus_per_task(job, role)) for role in job.roles
    ]
    try:
        lines += component_step(commands)
    except ValueError as error:
        raise input_error(job.name, str(error)) from None
    if job.restart.user_limit:
        lines += [CODE_LINE, requeue_line(job.restart.user_limit), EXIT_LINE]
    return RenderedScript("\n".join(lines) + "\n", tuple(unsaid_fields(job)))


def _component_problem(submission: Submission) -> str:
    """Reason why a job of several roles has no heterogeneous batch job; "" if it has one."""
    job = submission.job
    if submission.array:
        return "is no array; render a job for each index"
    if job.launcher is not Launcher.PLAIN:
        return "starts the ranks of all roles by srun; write launcher: plain"
    if has_steps(job):
        return "starts all roles at once; render a job for each step"
    if any(role.elastic for role in job.roles):
        return "has a fixed number of nodes in each component; remove elastic"
    return ""


def _shared(job: Job) -> Iterator[str]:
    """Options that each later component needs, too."""
    if job.queue != DEFAULT_QUEUE:
        yield f"--partition={job.queue}"
    for label in ("account", "qos"):
        if value := job.labels.get(f"slurm-{label}"):
            yield f"--{label}={value}"


def _identity(submission: Submission) -> Iterator[str]:
    job = submission.job
    yield f"--job-name={job.name}"
    if job.workdir:
        yield f"--chdir={shlex.quote(job.workdir)}"
    if job.queue != DEFAULT_QUEUE:
        yield f"--partition={job.queue}"
    for label in ("account", "qos"):
        if value := job.labels.get(f"slurm-{label}"):
            yield f"--{label}={value}"
    if job.priority:
        yield f"--nice={-job.priority}"
    if submission.array:
        yield f"--array={format_array(submission.array, submission.array_limit)}"
    if job.suspend:
        yield "--hold"
    if job.begin is not None:
        yield f"--begin={format_epoch(job.begin)}"


def tasks_of(job: Job, role: Role) -> int:
    """Tasks of srun on each node: one for each rank, or one that starts them."""
    return role.procs if job.launcher is Launcher.PLAIN else 1


def cpus_per_task(job: Job, role: Role) -> int:
    """Whole CPUs of each task; 0: as Slurm chooses."""
    return -(-role.resources.get(CPU, 0) // (1000 * tasks_of(job, role)))


def _size(job: Job, role: Role) -> Iterator[str]:
    least = role.replicas if role.min_replicas is None else role.min_replicas
    yield f"--nodes={least}" if least == role.replicas else f"--nodes={least}-{role.replicas}"
    yield f"--ntasks-per-node={tasks_of(job, role)}"
    if cpus := cpus_per_task(job, role):
        yield f"--cpus-per-task={cpus}"
    profile = next((name.removeprefix("mig-") for name in role.resources if name.startswith("mig-")), "")
    if profile:
        yield f"--gres=gpu:{profile}:1"
    elif gpus := role.resources.get(GPU):
        model = f"{job.gpu_types[0]}:" if job.gpu_types else ""
        yield f"--gpus-per-node={model}{gpus}"
    if memory := role.resources.get(MEMORY):
        yield f"--mem={-(-memory // 2**20)}M"


def _times(job: Job) -> Iterator[str]:
    """The walltime; with a grace of its own, that much longer, and SIGTERM that much before its end."""
    if job.walltime is None:
        return
    is_early = job.grace not in (0, DEFAULT_GRACE)
    yield f"--time={_slurm_time(job.walltime + (job.grace if is_early else 0))}"
    if is_early:
        yield f"--signal=TERM@{-(-job.grace // 1000)}"


def _slurm_time(ms: int) -> str:
    days, hours, minutes, seconds = clock_parts(-(-ms // 1000))
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


def _restarts(job: Job) -> Iterator[str]:
    is_requeued = job.preemptible or job.restart.infrastructure_limit or job.restart.user_limit
    yield "--requeue" if is_requeued else "--no-requeue"
    yield "--open-mode=append"


def _placement(job: Job, role: Role) -> Iterator[str]:
    if role.whole_node:
        yield "--exclusive"
    if job.avoid:
        yield f"--exclude={compress_hosts(job.avoid)}"
    terms = ["&".join(match.key for match in term) for term in role.affinity]
    if terms and all(match.operator == "Exists" for term in role.affinity for match in term):
        yield f"--constraint={shlex.quote('|'.join(terms))}"


def _exports(job: Job, role: Role, *, is_array: bool) -> Iterator[str]:
    yield from export_lines(role.env)
    yield from MEMBER_LINES if is_array else IDENTITY_LINES
    yield from RANK_LINES
    if job.launcher is not Launcher.PLAIN:
        yield from TORCHRUN_LINES
        yield f"{PROCS_EXPORT}{role.procs}"


def _step_cpus(job: Job, role: Role) -> str:
    cpus = cpus_per_task(job, role)
    return f" --cpus-per-task={cpus}" if cpus else ""


def _command(job: Job, role: Role) -> str:
    if job.launcher is Launcher.PLAIN:
        return RANK_SHELL + shlex.join(role.command)
    if job.launcher is Launcher.TORCHRUN:
        return shlex.join(role.command)
    try:
        return shlex.join(under_agent(role.command, _AGENT, str(role.procs)))
    except ValueError as error:
        raise input_error(job.name, f"command {error}; or write launcher: plain") from None
