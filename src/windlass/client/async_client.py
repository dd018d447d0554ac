"""The client of Windlass for programs with an event loop: `Client` and `Job` with methods that are awaited.

Generated from `client.py` by `tools/write_async_client.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack, cast, overload

from windlass.client import job_queries, schedule_calls
from windlass.client.calls import AwaitedCalls
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


class AsyncClient(AwaitedCalls):
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
    async def submit(
        self, job: BoundCall[R], *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]
    ) -> AsyncJob[R]: ...

    @overload
    async def submit(
        self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]
    ) -> AsyncJob[Any]: ...

    async def submit(
        self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]
    ) -> AsyncJob[Any]:
        """Submits one job, or an array, and returns its handle.

        `job`: a command (a line or a list of words), the path of a job file, a mapping of its fields, or a bound call
        of a function. `fields` win over those of the job. `ship`: on a cluster the folder of code to ship, or "no".
        """
        return AsyncJob(self, await self._call(submit_one, job, str(ship), fields))

    async def submit_all(
        self, job: JobSource, *, ship: str | PathLike[str] = "", **fields: Unpack[JobFields]
    ) -> Sequence[AsyncJob[Any]]:
        """Submits all jobs of a job file, all or none, and returns their handles."""
        return [AsyncJob(self, each) for each in await self._call(submit_jobs, job, str(ship), fields)]

    def job(self, name: str) -> AsyncJob[Any]:
        """Returns the handle of a job by its name or id, without asking whether it exists."""
        return AsyncJob(self, name)

    async def list(
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
        return await self._call(job_queries.list_jobs, {**filters, "all": "1"} if ended else filters)

    async def get(self, job: str) -> JobInfo:
        """Returns the state of a job by its name or id, with all `details`; of an array with its `members`."""
        return await self._call(job_queries.read_job, job)

    async def why(self, job: str, what_if: str = "") -> JobExplanation:
        """Returns the reason why a job waits. `what_if`: as if it had other options, such as "gpus=4 time=1h"."""
        return await self._call(job_queries.explain_job, job, what_if)

    async def logs(
        self, job: str, *, follow: bool = False, ranks: Sequence[int] | None = None, attempt: int | None = None
    ) -> AsyncIterator[OutputLine]:
        """Yields the output of the ranks. `follow`: until the job has ended. `attempt` None: the latest, 0: all."""
        key = await self._call(read_call_key, job)
        async for line in self._output(job, OutputSelection(follow, ranks, attempt)):
            text = without_result(line.text, key)
            if text is not None:
                yield replace(line, text=text)

    async def _output(self, job: str, selection: OutputSelection) -> AsyncIterator[OutputLine]:
        """Yields the output of the ranks, with the lines that carry a result."""
        output = await self._call(open_output, job, selection)
        times = WaitTimes(job)
        try:
            while not output.has_ended:
                lines = await self._call(read_output, output)
                for line in lines:
                    yield line
                if lines:
                    times.restart()
                elif not output.has_ended:
                    await self._pause(times.next_pause())
        finally:
            await self._call(close_output, output)

    async def wait(self, job: str, timeout: float | None = None) -> JobInfo:
        """Waits until a job has ended, or all members of an array. Raises WaitTimeoutError after `timeout` seconds."""
        times = WaitTimes(job, timeout)
        name = job
        while True:
            try:
                info = await self._call(job_queries.read_job, name)
                times.reached()
                name = info.id
                if info.has_ended:
                    return info
            except TargetUnreachableError as error:
                times.missed(error)
            await self._pause(times.next_pause())

    async def result(self, job: str, timeout: float | None = None) -> Any:
        """Waits for the job of a function and returns the result of rank 0.

        Raises JobFailedError if the job has not succeeded, WaitTimeoutError after `timeout` seconds, ResultError if the
        job returned nothing or its output no longer exists, and TargetUnreachableError if the output cannot be read.
        """
        info = succeeded_or_error(await self._diagnosed(await self.wait(job, timeout)))
        key = await self._call(read_call_key, info.id)
        selection = selection_of_result(info)
        texts = [line.text async for line in self._output(info.id, selection) if carries_result(line, key)]
        return result_of_output(info, texts, key, in_cluster=self._connection.is_cluster)

    async def _diagnosed(self, info: JobInfo) -> JobInfo:
        """Returns an ended job, of a failed one with the verdict on its failure if that comes soon."""
        times = WaitTimes(info.id, VERDICT_TIMEOUT_S)
        with contextlib.suppress(WaitTimeoutError):
            while expects_verdict(info):
                await self._pause(times.next_pause())
                info = await self._call(job_queries.read_job, info.id)
        return info

    async def cancel(self, job: str, *, now: bool = False) -> None:
        """Cancels a job or an array: SIGTERM, and SIGKILL after its grace; with `now` SIGKILL at once."""
        await self._call(job_queries.act_on_job, "cancel", job, {"now": now})

    async def suspend(self, job: str) -> None:
        """Stops a job and releases its nodes; it stays suspended until `resume`."""
        await self._call(job_queries.act_on_job, "suspend", job, {})

    async def resume(self, job: str) -> None:
        """Puts a suspended job back at the end of the queue."""
        await self._call(job_queries.act_on_job, "resume", job, {})

    async def metrics(
        self, job: str, *, since: int | None = None, until: int | None = None, points: int | None = None
    ) -> dict[str, Any]:
        """Returns the recorded telemetry of a job on this machine, between two times in milliseconds."""
        given = {"since": since, "until": until, "points": points}
        return await self._call(job_queries.read_metrics, job, {k: v for k, v in given.items() if v is not None})

    async def history(self, *, name: str = "", user: str = "", since: int | None = None, limit: int = 1000) -> JobList:
        """Returns ended jobs, the latest first. `since`: milliseconds since the epoch."""
        filters: dict[str, Any] = {"name": name, "user": user, "limit": limit}
        return await self._call(job_queries.list_ended_jobs, filters if since is None else {**filters, "since": since})

    async def nodes(self) -> NodeList:
        """Returns the nodes with their capacity and usage."""
        return await self._call(job_queries.list_nodes)

    async def queues(self) -> QueueList:
        """Returns the queues with their quota and usage."""
        return await self._call(job_queries.list_queues)

    async def schedules(self) -> ScheduleList:
        """Returns all schedules, by name."""
        return await self._call(schedule_calls.list_schedules)

    async def create_schedule(
        self, job: JobSource, cron: str, *, ship: str | PathLike[str] = "", **fields: Unpack[ScheduleFields]
    ) -> ScheduleInfo:
        """Creates a schedule: one job, as of `submit`, that is submitted again at the times of `cron`.

        Its name is that of the job. A job with `suspend` begins suspended. On a cluster its image holds the program.
        """
        return await self._call(schedule_calls.create_schedule, job, str(ship), {**fields, "cron": cron})

    async def suspend_schedule(self, name: str) -> None:
        """Lets a schedule start no runs until `resume_schedule`; an active run goes on."""
        await self._call(schedule_calls.act_on_schedule, "suspend", name)

    async def resume_schedule(self, name: str) -> None:
        """Lets a suspended schedule start runs again, from its next time on."""
        await self._call(schedule_calls.act_on_schedule, "resume", name)

    async def delete_schedule(self, name: str) -> None:
        """Deletes a schedule; an active run goes on."""
        await self._call(schedule_calls.act_on_schedule, "cancel", name)

    async def run_schedule(self, name: str) -> AsyncJob[Any]:
        """Starts a run of a schedule at once, whatever its policy, and returns its handle."""
        return AsyncJob(self, await self._call(schedule_calls.start_run, name))

    async def close(self) -> None:
        """Closes the connections. Jobs go on."""
        await asyncio.to_thread(self._connection.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class AsyncJob(Generic[R]):
    """The handle of a submitted job: its `id`, and the methods of the client for it. `R`: the type of its result."""

    def __init__(self, client: AsyncClient, id: str) -> None:
        self.client, self.id = (client, id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def info(self) -> JobInfo:
        """Returns the state of the job."""
        return await self.client.get(self.id)

    async def why(self, what_if: str = "") -> JobExplanation:
        """Returns the reason why the job waits, as `AsyncClient.why`."""
        return await self.client.why(self.id, what_if)

    async def logs(
        self, *, follow: bool = False, ranks: Sequence[int] | None = None, attempt: int | None = None
    ) -> AsyncIterator[OutputLine]:
        """Yields the output of the ranks, as `AsyncClient.logs`."""
        async for line in self.client.logs(self.id, follow=follow, ranks=ranks, attempt=attempt):
            yield line

    async def wait(self, timeout: float | None = None) -> JobInfo:
        """Waits until the job has ended, as `AsyncClient.wait`."""
        return await self.client.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> R:
        """Waits for the job of a function and returns the result of rank 0, as `AsyncClient.result`."""
        return cast("R", await self.client.result(self.id, timeout))

    async def metrics(self) -> dict[str, Any]:
        """Returns the recorded telemetry of the job."""
        return await self.client.metrics(self.id)

    async def cancel(self, *, now: bool = False) -> None:
        """Cancels the job, as `AsyncClient.cancel`."""
        await self.client.cancel(self.id, now=now)

    async def suspend(self) -> None:
        """Stops the job and releases its nodes until `resume`."""
        await self.client.suspend(self.id)

    async def resume(self) -> None:
        """Puts the suspended job back at the end of the queue."""
        await self.client.resume(self.id)
