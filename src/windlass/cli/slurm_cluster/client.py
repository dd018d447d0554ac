"""A client of Slurm with the calls and answers of `server.client.Client`, through Slurm's own commands."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from windlass.backends.slurm.actions import cancel_job, hold_job, release_job
from windlass.backends.slurm.cluster_nodes import read_nodes
from windlass.backends.slurm.commands import CommandRunner, run_command
from windlass.backends.slurm.errors import SlurmError
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import job_state, phase_of
from windlass.backends.slurm.pending_reasons import explain_wait
from windlass.backends.slurm.queries import accounting_fault, has_accounting, list_jobs, recently_ended_jobs
from windlass.backends.slurm.submission import submit_job
from windlass.cli.current_user import current_user
from windlass.cli.slurm_cluster.error_codes import api_errors
from windlass.cli.slurm_cluster.first_failure import hides_first_failure, with_first_failure, with_known_failure
from windlass.cli.slurm_cluster.job_events import SlurmEvents
from windlass.cli.slurm_cluster.job_finder import find_jobs
from windlass.cli.slurm_cluster.job_views import array_id, job_details, job_line, listing_order
from windlass.cli.slurm_cluster.job_watch import Found, JobWatch
from windlass.cli.state_events import ReportedState
from windlass.core.model.status import HOLDING, TERMINAL, Phase
from windlass.jobs.description.submission import Submission
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import parse_filter

Json = dict[str, Any]
_DEFAULT_LIMIT = 1_000
_HISTORY_S = 7 * 24 * 3600
"""Age in seconds up to which the accounting is asked for ended jobs without `since`: it keeps those of years."""
_MAX_AGE_S = 1.0
"""Age up to which the last answer of squeue is used again: its controller serves all users of a cluster."""

_MAX_WATCHES = 64
"""Number of different jobs that one client keeps to read them again."""


def _print_warning(text: str) -> None:
    print(f"windlass: {text}", file=sys.stderr)


class SlurmClient:
    """The Slurm of this login node. Every call raises ApiError. `warn` is told what an answer lacks."""

    kind = "up"
    """As of a daemon: jobs outlive the process that submits them."""
    succeeded = False

    def __init__(self, run: CommandRunner = run_command, *, warn: Callable[[str], None] = _print_warning) -> None:
        self._run, self._warn = run, warn
        self._has_warned = False
        self._reported: dict[str, ReportedState] = {}
        self._known: list[SlurmJob] = []
        self._known_at = -math.inf
        self._watches: dict[str, JobWatch] = {}
        self._failed: dict[tuple[str, int | None], SlurmJob] = {}
        """Failed jobs with the exit code of their first failure, by id and end."""

    # --- queries -----------------------------------------------------------------------------------

    def find(self, name: str) -> list[SlurmJob]:
        """Returns the job, or the members of the array, of a number, an id or a name."""
        with api_errors():
            return find_jobs(self._run, self._list(), name)

    def jobs(self, **filters: Any) -> list[Json]:
        """Returns jobs as lines of a listing; ended ones only as long as the controller knows them."""
        wanted, limit = parse_filter(filters), int(filters.get("limit") or _DEFAULT_LIMIT)
        with api_errors():
            jobs = self._list()
        chosen = [job for job in jobs if wanted.ended or phase_of(job) not in TERMINAL]
        shown = [job for job in sorted(chosen, key=listing_order) if wanted.has(job_state(job))]
        return [job_line(job, jobs) for job in shown[:limit]]

    def job(self, name: str) -> Json:
        """Returns the details of a job, or the lines of an array's members."""
        found, jobs = self._read_again(name)
        if len(found) > 1:
            return {"id": array_id(found), "members": [job_line(each, jobs) for each in found]}
        return job_details(found[0], jobs)

    def explain(self, name: str, what_if: str = "") -> Json:
        """Returns why a job waits, with counts of nodes."""
        if what_if:
            raise ApiError(
                ErrorCode.BAD_REQUEST, "Slurm explains only the request as it is", "try a request: sbatch --test-only"
            )
        found, jobs = self._read([name])
        job = min(found, key=lambda each: phase_of(each) is not Phase.QUEUED)
        return self._explain(job, jobs)

    def explain_all(self) -> Json:
        """Returns all waiting jobs with their reasons."""
        lines = self.jobs(phase=Phase.QUEUED.value)
        return {"jobs": [line | {"would_start": None} for line in lines], "now": _now()}

    def ping(self) -> Json:
        """Returns the version of Slurm, its jobs by state, and whether it keeps ended ones."""
        with api_errors():
            version = self._run(["sinfo", "--version"]).strip()
            phases = [phase_of(job) for job in list_jobs(self._run)]
            note = accounting_fault(self._run)
        holding, waiting = (sum(each in group for each in phases) for group in (HOLDING, {Phase.QUEUED}))
        return {"kind": "slurm", "version": version, "holding": holding, "waiting": waiting, "note": note}

    def schedules(self) -> list[Json]:
        """Returns none: Slurm runs jobs at times by scrontab."""
        return []

    def check(self) -> None:
        """Raises ApiError if the controller does not answer."""
        with api_errors():
            self._run(["sinfo", "--noheader", "--format=%R"])

    def follow(self, names: str, after: int = 0) -> SlurmEvents:  # noqa: ARG002 - states are read, not events
        """Streams the events of jobs (names separated by commas), beginning with their current state."""
        return SlurmEvents(lambda: self._read_again(names), self._reported)

    def close(self) -> None:
        """Does nothing: no connection is open between calls."""

    def history(self, **filters: Any) -> list[Json]:
        """Returns ended jobs, latest first: those that the controller still knows, and those of the accounting."""
        since, limit = int(filters.get("since") or 0), int(filters.get("limit") or _DEFAULT_LIMIT)
        wanted = parse_filter({key: filters.get(key, "") for key in ("name", "user")})
        with api_errors():
            known = [job for job in self._list() if phase_of(job) in TERMINAL]
            numbers = {job.number for job in self._list()}
            ended = known + [job for job in self._accounted(since) if job.number not in numbers]
        chosen = [job for job in ended if job.ended is not None and job.ended * 1000 >= since]
        latest = sorted((job for job in chosen if wanted.has(job_state(job))), key=lambda job: -(job.ended or 0))
        return [job_line(with_known_failure(job), ()) for job in latest[:limit]]

    # --- changes -----------------------------------------------------------------------------------

    def submit(
        self, submissions: Sequence[Submission], *, key: str = "", again: bool = False, **_facts: Any
    ) -> list[str]:
        """Submits jobs, all or none; returns their ids. `again`: those that the key marks are not submitted twice."""
        numbers: dict[str, str] = {}
        self._known_at = -math.inf
        with api_errors():
            known = _submitted_before(self._run) if again else {}
            try:
                for position, each in enumerate(submissions):
                    mark = f"windlass-{key}-{position}"
                    found = known.pop(mark, None)
                    if found is None:
                        # jobs after one that is submitted anew may depend on the earlier one
                        _cancel_marked(self._run, known, key)
                        number = self._submit(each, mark, numbers)
                    else:
                        number = str(found.array or found.number)
                    numbers[f"{each.job.name}-{number}"] = number
            except BaseException:
                for number in numbers.values():
                    cancel_job(self._run, number)
                raise
        return list(numbers)

    def act(self, verb: str, name: str, *, now: bool = False, **_how: Any) -> Json:
        """Cancels, suspends or resumes a job or a whole array; Slurm alone sets the grace, `now` is refused."""
        if now:
            raise ApiError(ErrorCode.BAD_REQUEST, "Slurm sends SIGKILL only after its KillWait", "omit --now")
        found = self.find(name)
        living = [job for job in found if phase_of(job) not in TERMINAL]
        if not living:
            raise ApiError(ErrorCode.WRONG_STATE, f"{name} has ended", "" if verb == "cancel" else "submit it again")
        self._known_at = -math.inf
        with api_errors():
            if verb == "cancel":
                cancel_job(self._run, living[0].key if len(found) == 1 else str(living[0].array))
            for job in living if verb != "cancel" else ():
                {"suspend": hold_job, "resume": release_job}[verb](self._run, job)
        return {"jobs": [{"id": job.id} for job in living]}

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """Acts on several jobs: returns the changed `jobs`, and `errors`."""
        errors: list[Json] = []
        done: list[Json] = []
        for name in names:
            try:
                done += self.act(verb, name, **how)["jobs"]
            except ApiError as error:
                errors.append(error.as_json()["error"])
        return {"jobs": done, "errors": errors}

    # -----------------------------------------------------------------------------------------------

    def _submit(self, submission: Submission, mark: str, numbers: dict[str, str]) -> str:
        def number_of(name: str) -> str:
            own = [number for job_id, number in numbers.items() if name in (job_id, job_id.rpartition("-")[0])]
            if own:
                return own[-1]
            user = current_user()
            jobs = [job for job in list_jobs(self._run) if job.name != name or job.user == user]
            job = find_jobs(self._run, jobs, name)[0]
            return str(job.array or job.number)

        return submit_job(self._run, submission, mark, number_of)

    def _list(self, since: float = -math.inf) -> list[SlurmJob]:
        """Returns all jobs that the controller knows, as of at most a second ago, and of no time before `since`."""
        now = time.monotonic()
        if self._known_at < max(since, now - _MAX_AGE_S):
            before, self._failed = self._failed, {}
            self._known = [self._with_first_failure(job, before) for job in list_jobs(self._run)]
            self._known_at = now
        return self._known

    def _accounted(self, since: int) -> list[SlurmJob]:
        """Returns ended jobs of the accounting; warns once if it does not answer, and returns none."""
        if not has_accounting(self._run):
            return []
        seconds = max(1, _now() // 1000 - since // 1000) if since else _HISTORY_S
        try:
            jobs = recently_ended_jobs(self._run, seconds)
        except SlurmError as error:
            if not self._has_warned:
                self._warn(f"{error.message}; only jobs that the controller still knows are listed")
            self._has_warned = True
            return []
        self._has_warned = False
        return jobs

    def _with_first_failure(self, job: SlurmJob, before: dict[tuple[str, int | None], SlurmJob]) -> SlurmJob:
        """Returns the job with the exit code of its first failure; reads the output of each failed job once."""
        if not hides_first_failure(job):
            return job
        key = job.id, job.ended
        self._failed[key] = before[key] if key in before else with_first_failure(job)
        return self._failed[key]

    def _read(self, names: Sequence[str], since: float = -math.inf) -> Found:
        with api_errors():
            jobs = self._list(since)
            return [job for name in names for job in find_jobs(self._run, jobs, name)], jobs

    def _read_again(self, names: str) -> Found:
        """As `_read`, of names separated by commas that are read several times."""
        if names not in self._watches and len(self._watches) == _MAX_WATCHES:
            self._watches.clear()
        read = partial(self._read, names.split(","))
        watch = self._watches.setdefault(names, JobWatch(self._run, read, time.monotonic))
        with api_errors():
            return watch.read()

    def _explain(self, job: SlurmJob, jobs: Sequence[SlurmJob]) -> Json:
        answer: Json = {"job": job_line(job, jobs), "now": _now()}
        if phase_of(job) is not Phase.QUEUED:
            return answer
        with api_errors():
            return answer | {"explanation": explain_wait(job, jobs, read_nodes(self._run, job.partition))}


def _submitted_before(run: CommandRunner) -> dict[str, SlurmJob]:
    """The user's own jobs by their marks; a submission that failed has cancelled those that it had made."""
    user = current_user()
    return {job.comment: job for job in list_jobs(run) if job.user == user and "CANCELLED" not in job.states}


def _cancel_marked(run: CommandRunner, known: dict[str, SlurmJob], key: str) -> None:
    """Cancels the jobs of a submission that are still known, and forgets them."""
    for mark in [mark for mark in known if mark.startswith(f"windlass-{key}-")]:
        job = known.pop(mark)
        if phase_of(job) not in TERMINAL:
            cancel_job(run, str(job.array or job.number))


def _now() -> int:
    return int(time.time() * 1000)
