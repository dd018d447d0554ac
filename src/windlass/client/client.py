"""The client of Windlass: one object for one target, and a handle for each job.

`tools/write_async_client.py` generates `async_client.py` from this file: each method is written once. A method waits
only in `self._call` (one short call) and `self._pause`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack, cast, overload

from windlass.client import job_queries, schedule_calls
from windlass.client.calls import BlockingCalls
from windlass.client.connection import TargetConnection
from windlass.client.errors import TargetUnreachableError, WaitTimeoutError
from windlass.client.function_call import without_result
from windlass.client.function_result import (
    VERDICT_TIMEOUT_S,
    carries_result,
    expects_verdict,
    read_call_key,
    result_of_output,
    selection_of_result,
    succeeded_or_error,
)
from windlass.client.job_fields import JobFields, ScheduleFields
from windlass.client.job_function import BoundCall
from windlass.client.job_output import OutputSelection, close_output, open_output, read_output
from windlass.client.records import (
    JobExplanation,
    JobInfo,
    JobList,
    NodeList,
    OutputLine,
    QueueList,
    ScheduleInfo,
    ScheduleList,
)
from windlass.client.submission import JobSource, submit_jobs, submit_one
from windlass.client.wait_times import WaitTimes

R = TypeVar("R")


class Client(BlockingCalls):
    """A client of one target: the daemon of this machine, a cluster, or a Slurm.

    `target`: "local", "kubernetes", "slurm" or a context of the kubeconfig, as `--on`; None: the default of `--on`.
    `namespace`: on a cluster. `state`: the state folder of the daemon. The target is contacted at the first call.

    Every method raises `WindlassError`, whose subclass states the kind and whose `fix` states the way out.
    """

    def __init__(
        self, target: str | None = None, *, namespace: str = "", state: str | PathLike[str] | None = None
    ) -> None:
        super().__init__(TargetConnection(target or "", namespace, None if state is None else Path(state)))

    @overload
    def submit(self, job: BoundCall[R], *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]) -> Job[R]: ...

    @overload
    def submit(self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]) -> Job[Any]: ...

    def submit(self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]) -> Job[Any]:
        """Submits one job, or an array, and returns its handle.

        `job`: a command (a line or a list of words), the path of a job file, a mapping of its fields, or a bound call
        of a function. `fields` win over those of the job. `ship`: on a cluster the folder of code to ship, or "no".
        """
        return Job(self, self._call(submit_one, job, str(ship), fields))

    def submit_all(
        self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]
    ) -> Sequence[Job[Any]]:
        """Submits all jobs of a job file, all or none, and returns their handles."""
        return [Job(self, each) for each in self._call(submit_jobs, job, str(ship), fields)]

    def job(self, name: str) -> Job[Any]:
        """Returns the handle of a job by its name or id, without asking whether it exists."""
        return Job(self, name)

    def list(
        self,
        *,
        name: str = "",
        user: str = "",
        queue: str = "",
        phase: str = "",
        ended: bool = False,
        limit: int = 1000,
    ) -> JobList:
        """Returns the jobs that hold nodes or wait, in queue order; with `ended` the ended ones too.

        Each filter takes several values, separated by commas. `phase` "Cancelled" means failed jobs with that reason.
        """
        filters = {"name": name, "user": user, "queue": queue, "phase": phase, "limit": limit}
        return self._call(job_queries.list_jobs, {**filters, "all": "1"} if ended else filters)

    def get(self, job: str) -> JobInfo:
        """Returns the state of a job by its name or id, with all `details`; of an array with its `members`."""
        return self._call(job_queries.read_job, job)

    def why(self, job: str, what_if: str = "") -> JobExplanation:
        """Returns the reason why a job waits. `what_if`: as if it had other options, such as "gpus=4 time=1h"."""
        return self._call(job_queries.explain_job, job, what_if)

    def logs(
        self, job: str, *, follow: bool = False, ranks: Sequence[int] | None = None, attempt: int | None = None
    ) -> Iterator[OutputLine]:
        """Yields the output of the ranks. `follow`: until the job has ended. `attempt` None: the latest, 0: all."""
        key = self._call(read_call_key, job)
        for line in self._output(job, OutputSelection(follow, ranks, attempt)):
            text = without_result(line.text, key)
            if text is not None:
                yield replace(line, text=text)

    def _output(self, job: str, selection: OutputSelection) -> Iterator[OutputLine]:
        """Yields the output of the ranks, with the lines that carry a result."""
        output = self._call(open_output, job, selection)
        times = WaitTimes(job)
        try:
            while not output.has_ended:
                lines = self._call(read_output, output)
                for line in lines:  # noqa: UP028 - an asynchronous generator has no `yield from`
                    yield line
                if lines:
                    times.restart()
                elif not output.has_ended:
                    self._pause(times.next_pause())
        finally:
            self._call(close_output, output)

    def wait(self, job: str, timeout: float | None = None) -> JobInfo:
        """Waits until a job has ended, or all members of an array. Raises WaitTimeoutError after `timeout` seconds."""
        times = WaitTimes(job, timeout)
        name = job
        while True:
            try:
                info = self._call(job_queries.read_job, name)
                times.reached()
                name = info.id
                if info.has_ended:
                    return info
            except TargetUnreachableError as error:
                times.missed(error)
            self._pause(times.next_pause())

    def result(self, job: str, timeout: float | None = None) -> Any:
        """Waits for the job of a function and returns the result of rank 0.

        Raises JobFailedError if the job has not succeeded, WaitTimeoutError after `timeout` seconds, ResultError if the
        job returned nothing or its output no longer exists, and TargetUnreachableError if the output cannot be read.
        """
        info = succeeded_or_error(self._diagnosed(self.wait(job, timeout)))
        key = self._call(read_call_key, info.id)
        selection = selection_of_result(info)
        texts = [line.text for line in self._output(info.id, selection) if carries_result(line, key)]
        return result_of_output(info, texts, key, in_cluster=self._connection.is_cluster)

    def _diagnosed(self, info: JobInfo) -> JobInfo:
        """Returns an ended job, of a failed one with the verdict on its failure if that comes soon."""
        times = WaitTimes(info.id, VERDICT_TIMEOUT_S)
        with contextlib.suppress(WaitTimeoutError):
            while expects_verdict(info):
                self._pause(times.next_pause())
                info = self._call(job_queries.read_job, info.id)
        return info

    def cancel(self, job: str, *, now: bool = False) -> None:
        """Cancels a job or an array: SIGTERM, and SIGKILL after its grace; with `now` SIGKILL at once."""
        self._call(job_queries.act_on_job, "cancel", job, {"now": now})

    def suspend(self, job: str) -> None:
        """Stops a job and releases its nodes; it stays suspended until `resume`."""
        self._call(job_queries.act_on_job, "suspend", job, {})

    def resume(self, job: str) -> None:
        """Puts a suspended job back at the end of the queue."""
        self._call(job_queries.act_on_job, "resume", job, {})

    def metrics(
        self, job: str, *, since: int | None = None, until: int | None = None, points: int | None = None
    ) -> dict[str, Any]:
        """Returns the recorded telemetry of a job on this machine, between two times in milliseconds."""
        given = {"since": since, "until": until, "points": points}
        return self._call(job_queries.read_metrics, job, {k: v for k, v in given.items() if v is not None})

    def history(self, *, name: str = "", user: str = "", since: int | None = None, limit: int = 1000) -> JobList:
        """Returns ended jobs, the latest first. `since`: milliseconds since the epoch."""
        filters: dict[str, Any] = {"name": name, "user": user, "limit": limit}
        return self._call(job_queries.list_ended_jobs, filters if since is None else {**filters, "since": since})

    def nodes(self) -> NodeList:
        """Returns the nodes with their capacity and usage."""
        return self._call(job_queries.list_nodes)

    def queues(self) -> QueueList:
        """Returns the queues with their quota and usage."""
        return self._call(job_queries.list_queues)

    def schedules(self) -> ScheduleList:
        """Returns all schedules, by name."""
        return self._call(schedule_calls.list_schedules)

    def create_schedule(
        self, job: JobSource, cron: str, *, ship: str | PathLike[str] = "", **fields: Unpack[ScheduleFields]
    ) -> ScheduleInfo:
        """Creates a schedule: one job, as of `submit`, that is submitted again at the times of `cron`.

        Its name is that of the job. A job with `suspend` begins suspended. On a cluster its image holds the program.
        """
        return self._call(schedule_calls.create_schedule, job, str(ship), {**fields, "cron": cron})

    def suspend_schedule(self, name: str) -> None:
        """Lets a schedule start no runs until `resume_schedule`; an active run goes on."""
        self._call(schedule_calls.act_on_schedule, "suspend", name)

    def resume_schedule(self, name: str) -> None:
        """Lets a suspended schedule start runs again, from its next time on."""
        self._call(schedule_calls.act_on_schedule, "resume", name)

    def delete_schedule(self, name: str) -> None:
        """Deletes a schedule; an active run goes on."""
        self._call(schedule_calls.act_on_schedule, "cancel", name)

    def run_schedule(self, name: str) -> Job[Any]:
        """Starts a run of a schedule at once, whatever its policy, and returns its handle."""
        return Job(self, self._call(schedule_calls.start_run, name))

    def close(self) -> None:
        """Closes the connections. Jobs go on."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Job(Generic[R]):
    """The handle of a submitted job: its `id`, and the methods of the client for it. `R`: the type of its result."""

    def __init__(self, client: Client, id: str) -> None:
        self.client, self.id = client, id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def info(self) -> JobInfo:
        """Returns the state of the job."""
        return self.client.get(self.id)

    def why(self, what_if: str = "") -> JobExplanation:
        """Returns the reason why the job waits, as `Client.why`."""
        return self.client.why(self.id, what_if)

    def logs(
        self, *, follow: bool = False, ranks: Sequence[int] | None = None, attempt: int | None = None
    ) -> Iterator[OutputLine]:
        """Yields the output of the ranks, as `Client.logs`."""
        for line in self.client.logs(self.id, follow=follow, ranks=ranks, attempt=attempt):  # noqa: UP028 - as above
            yield line

    def wait(self, timeout: float | None = None) -> JobInfo:
        """Waits until the job has ended, as `Client.wait`."""
        return self.client.wait(self.id, timeout)

    def result(self, timeout: float | None = None) -> R:
        """Waits for the job of a function and returns the result of rank 0, as `Client.result`."""
        return cast("R", self.client.result(self.id, timeout))

    def metrics(self) -> dict[str, Any]:
        """Returns the recorded telemetry of the job."""
        return self.client.metrics(self.id)

    def cancel(self, *, now: bool = False) -> None:
        """Cancels the job, as `Client.cancel`."""
        self.client.cancel(self.id, now=now)

    def suspend(self) -> None:
        """Stops the job and releases its nodes until `resume`."""
        self.client.suspend(self.id)

    def resume(self) -> None:
        """Puts the suspended job back at the end of the queue."""
        self.client.resume(self.id)
