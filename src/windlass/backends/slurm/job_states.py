"""A job of Slurm as a job and a status of Windlass. Pure."""

from __future__ import annotations

from windlass.backends.slurm.job_records import SlurmJob
from windlass.core.model.job import Job, Role
from windlass.core.model.resources import CPU, GPU, MEMORY
from windlass.core.model.status import CANCELLED, Failure, FailureClass, JobState, Phase, Placement, Status
from windlass.jobs.slurm.hostlist import expand_hosts

_HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})
_ENDS = {
    "FAILED": ("", FailureClass.USER, ""),
    "TIMEOUT": ("WalltimeExceeded", FailureClass.USER, "it reached its time limit"),
    "OUT_OF_MEMORY": ("OutOfMemory", FailureClass.USER, "it used more memory than it requested"),
    "DEADLINE": ("DeadlineExceeded", FailureClass.USER, "it reached its deadline"),
    "NODE_FAIL": ("NodeLost", FailureClass.INFRASTRUCTURE, "one of its nodes failed"),
    "BOOT_FAIL": ("NodeLost", FailureClass.INFRASTRUCTURE, "one of its nodes did not boot"),
    "PREEMPTED": ("Preempted", FailureClass.PREEMPTION, "Slurm preempted it"),
    "REVOKED": ("Revoked", FailureClass.INFRASTRUCTURE, "another cluster runs it"),
}
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})


def phase_of(job: SlurmJob) -> Phase:
    """The phase: a job with processes that are still ending has not ended."""
    if job.states & _WAITING:
        return Phase.SUSPENDED if job.reason in _HELD else Phase.QUEUED
    if "COMPLETING" in job.states:
        return Phase.RUNNING
    if "COMPLETED" in job.states:
        return Phase.SUCCEEDED
    if "CANCELLED" in job.states or job.states & _ENDS.keys():
        return Phase.FAILED
    if "SUSPENDED" in job.states or "STOPPED" in job.states:
        return Phase.SUSPENDED
    return Phase.ADMITTED if "CONFIGURING" in job.states else Phase.RUNNING


def job_state(job: SlurmJob) -> JobState:
    """The job and its status. Its attempts are Slurm's restarts and the present start."""
    return JobState(job.id, job.number, _description(job), _status(job, phase_of(job)))


def _description(job: SlurmJob) -> Job:
    amounts = {CPU: 1000 * job.cpus // job.node_count, MEMORY: job.memory // job.node_count, GPU: job.gpus_per_node}
    role = Role(
        replicas=job.node_count,
        procs=max(1, job.tasks // job.node_count),
        resources={name: amount for name, amount in amounts.items() if amount},
    )
    return Job(
        job.name,
        (role,),
        queue=job.partition,
        priority=job.priority,
        user=job.user,
        workdir=job.workdir,
        walltime=None if job.time_limit is None else job.time_limit * 60_000,
    )


def _status(job: SlurmJob, phase: Phase) -> Status:
    has_ended = phase in (Phase.SUCCEEDED, Phase.FAILED)
    is_waiting = bool(job.states & _WAITING)
    has_run = not is_waiting and bool(job.nodes)
    started = _ms(job.started) if has_run else None
    reason, message, failure = _end(job) if phase is Phase.FAILED else ("", "", None)
    return Status(
        phase=phase,
        reason=reason or phase.value,
        message=message,
        generation=job.restarts + has_run,
        created_at=_ms(job.submitted) or 0,
        queued_at=_ms(job.submitted),
        admitted_at=started,
        started_at=started,
        running_since=None if has_ended else started,
        finished_at=_ms(job.ended) if has_ended else None,
        run_time=max(0, (_ms(job.ended) or 0) - started) if has_ended and started is not None else 0,
        placement=Placement({"worker": node_names(job.nodes)}) if has_run and not has_ended else None,
        last_failure=failure,
    )


def _end(job: SlurmJob) -> tuple[str, str, Failure | None]:
    """Reason, message and failure of a job that did not succeed."""
    if "CANCELLED" in job.states:
        return CANCELLED, "cancelled", None
    if "FAILED" in job.states and not job.nodes:
        message = f"Slurm refused it ({job.reason})"
        return "Misconfigured", message, Failure(FailureClass.USER, "Misconfigured", message, _ms(job.ended) or 0)
    state = next((each for each in _ENDS if each in job.states), "FAILED")
    reason, kind, message = _ENDS[state]
    if not reason:
        reason = "Signal" if job.signal else "ExitCode"
        ended = f"signal {job.signal}" if job.signal else f"exit code {job.exit_code}"
        ended += f" of {job.failed_task}" if job.failed_task else ""
        message = f"{ended} ({job.reason})" if job.reason not in ("", "None", "NonZeroExitCode") else ended
    code, signal = (job.exit_code or None, job.signal or None) if reason in ("Signal", "ExitCode") else (None, None)
    return reason, message, Failure(kind, reason, message, _ms(job.ended) or 0, exit_code=code, signal=signal)


def node_names(text: str) -> tuple[str, ...]:
    """The names of a host list; none of a list that cannot be read."""
    try:
        return tuple(expand_hosts(text)) if text else ()
    except ValueError:
        return ()


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
