"""A controller, its local backend and the API in one loop: the daemon, or a `windlass run` without one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.folder_lock import FolderLock, Kind
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.submission_origins import clients_of_living_jobs
from windlass.backends.local.supervisor_start import SupervisorLink
from windlass.backends.port import BackendError, Changes
from windlass.controller.controller import Controller, run
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import JobState, Phase
from windlass.server.cluster_options import ClusterOptions
from windlass.server.cluster_selection import choose_cluster, save_cluster
from windlass.server.dashboard.listener import DashboardListener
from windlass.server.diagnosis.diagnosis_process import ProcessLimits, diagnose_in_process
from windlass.server.diagnosis.failure_diagnosis import FailureDiagnosis
from windlass.server.diagnosis.local_evidence import local_evidence
from windlass.server.feed import EventFeed
from windlass.server.garbage_collection import collect_rarely
from windlass.server.local_actions import LocalActions
from windlass.server.local_data_source import LocalDataSource
from windlass.server.schedule_actions import ScheduleActions
from windlass.server.schedule_runner import ScheduleRunner
from windlass.server.service import Service
from windlass.server.telemetry_export.settings import read_export_settings
from windlass.server.telemetry_records.recorder import STORE_NAME, RecordedSource, record_telemetry

if TYPE_CHECKING:
    from windlass.server.telemetry_export.exports import TelemetryExports
    from windlass.telemetry.frames import MetricFrame

_FAULT_DELAY_S = 1.0
"""Delay of messages about settings: `windlass run` prints those of its controller once the job is submitted."""
_MAX_SAVED_VERDICTS = 1_000
"""Maximum number of verdicts that are saved at the end, for `windlass why` while no controller runs."""


class LocalServer:
    """Server of one state folder, until `leave`. Created and used in one thread. Raises BackendError."""

    def __init__(
        self,
        state: Path,
        options: ClusterOptions,
        kind: Kind,
        held: FolderLock,
        link: SupervisorLink | None,
        say: Callable[[str], None],
    ) -> None:
        self.feed = EventFeed()
        self._say = say
        self.succeeded = False
        self._ends_supervisor = False
        self._stop = asyncio.Event()
        self._kind = kind
        here = choose_cluster(state, options)
        lasting: Kind = "up" if kind == "up" or _has_lasting_jobs(state) else "run"
        self.backend = LocalBackend(state, here, kind=lasting, held=held, link=link, on_trouble=say)
        save_cluster(self.backend.store, self.backend.cluster)
        self.controller = Controller(self.backend.recover(), self.backend.finished)
        self._telemetry = state / STORE_NAME
        source = LocalDataSource(self.backend)
        self.service = Service(self.controller, source, self.feed, kind, self._telemetry)
        self._diagnosis = FailureDiagnosis(self._diagnose, self.backend.inject)
        self._dashboard = DashboardListener(self.service, self.controller, self.feed, self.backend.paths)
        self._schedules = ScheduleRunner(self.controller, self.backend, say)
        schedules = ScheduleActions(self.controller, self.backend, self._schedules)
        self.service.find_schedule, self.service.list_schedules = schedules.find, lambda _is_shown: schedules.lines()
        self.actions = LocalActions(
            self.service, self.controller, self.backend, self.feed, self._hand_over, self._dashboard, schedules
        )

    async def live(self, listener: socket.socket) -> None:
        """Runs the controller and the API until `leave`. Running jobs go on, unless the process supervisor is ended."""
        from windlass.server.http_server import serve_api  # noqa: PLC0415 - not needed to control

        collect_rarely()
        loop = asyncio.get_running_loop()
        controlling = loop.create_task(
            run(self.controller, self.backend, [self.feed, self._diagnosis, self._schedules], on_trouble=self._trouble)
        )
        self._diagnosis.add(self.controller.states.values())
        serving = loop.create_task(serve_api(listener, self.service, self.actions, at_once=self._kind == "up"))
        exports = self._start_exports()
        publish = exports.offer if exports is not None else _publish_nothing
        recorded = RecordedSource(self.controller, self.service.source, self.backend.cluster, publish)
        recording = loop.create_task(record_telemetry(recorded, self._telemetry, self._say))
        starting = loop.create_task(self._schedules.run() if self._kind == "up" else asyncio.sleep(0))
        stopping = loop.create_task(self._stop.wait())
        await asyncio.wait([controlling, stopping], return_when=asyncio.FIRST_COMPLETED)
        # 1. accept no more actions
        self.feed.close()
        await self._dashboard.close()
        try:
            # 2. end the API, then the controller between two turns
            for task in (starting, recording, serving, stopping, controlling):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self._diagnosis.close()
            if exports is not None:
                await exports.close()
            await self._save_verdicts()
        finally:
            listener.close()  # waiting connections get an error at once
            # 3. release the folder for the next controller
            self._ends_supervisor = self._ends_supervisor or not self.backend.has_living_jobs()
            self.backend.close(end=self._ends_supervisor)

    def _start_exports(self) -> TelemetryExports | None:
        """Starts what the environment asks for; None without anything."""
        settings = read_export_settings(os.environ)
        for fault in settings.faults:
            asyncio.get_running_loop().call_later(_FAULT_DELAY_S, self._say, fault)
        if not settings.is_on:
            return None
        from windlass.server.telemetry_export.exports import TelemetryExports  # noqa: PLC0415 - rarely needed
        from windlass.server.telemetry_export.trace_export import TracedJobs  # noqa: PLC0415
        from windlass.server.telemetry_export.trace_mark import MarkFile  # noqa: PLC0415

        jobs = TracedJobs(self.service.source.records, self.backend.now)
        exports = TelemetryExports(settings, jobs, MarkFile(self._telemetry.parent), self._say)
        exports.start()
        return exports

    @property
    def keeps_jobs(self) -> bool:
        """Whether jobs go on after `live`."""
        return not self._ends_supervisor

    def leave(self, keep_jobs: bool = True) -> None:  # noqa: FBT001, FBT002 - a callback
        """Lets `live` return. Without `keep_jobs` the process supervisor ends too, with all its processes."""
        self._ends_supervisor = not keep_jobs
        self.service.is_ending = True
        self._stop.set()

    def _hand_over(self, keep_jobs: bool) -> None:  # noqa: FBT001 - a callback
        self.succeeded = True
        self.leave(keep_jobs)

    async def _diagnose(self, state: JobState) -> DiagnosedCause:
        details = await self.service.job(state.id)
        request = local_evidence(self.backend.paths, details, state.status.failed_generation)
        return await diagnose_in_process(request, ProcessLimits())

    def _trouble(self, text: str) -> None:
        self._say(text)
        self.feed.complain(text)

    async def _save_verdicts(self) -> None:
        waiting = [s.id for s in self.controller.states.values() if s.status.phase is Phase.QUEUED][
            :_MAX_SAVED_VERDICTS
        ]
        verdicts = self.controller.plan.verdicts
        self.backend.note_verdicts({job_id: verdicts[job_id] for job_id in waiting if job_id in verdicts})
        with contextlib.suppress(BackendError):  # saved verdicts are optional
            await self.backend.commit(Changes())


def _publish_nothing(_frames: Sequence[MetricFrame]) -> None:
    """For a controller that exports nothing."""


def _has_lasting_jobs(state: Path) -> bool:
    """Whether jobs of a daemon still live: a `run` that takes over must not end the process supervisor with them."""
    records = StateReader.open(StatePaths(state))
    if records is None:
        return False
    with contextlib.closing(records):
        return len(records.alive()) > len(clients_of_living_jobs(records))
