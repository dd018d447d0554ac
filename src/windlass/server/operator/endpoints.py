"""HTTP endpoints of one replica of the operator, as leader and as follower."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from starlette.types import ASGIApp

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.pod_events import list_events
from windlass.backends.kubernetes.gangs.gang import LastWait
from windlass.backends.port import BackendError
from windlass.controller.controller import Controller
from windlass.controller.observer import Observer
from windlass.core.model.status import JobState
from windlass.server.diagnosis.failure_diagnosis import FailureDiagnosis
from windlass.server.feed import EventFeed
from windlass.server.operator.app import cluster_api, probe_application, with_open_queries
from windlass.server.operator.attempt_diagnosis import AttemptDiagnosis, diagnose_wait, is_recent
from windlass.server.operator.bounded_http import DEFAULT_LIMITS, HttpLimits, bounded_server
from windlass.server.operator.cluster_data_source import ClusterDataSource
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.dashboard.leader_dashboard import LeaderDashboard
from windlass.server.operator.dashboard.schedule_lines import schedule_lines
from windlass.server.operator.history.recorder import HistoryRecorder
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics, TurnTimer, render_metrics
from windlass.server.operator.node_cordon import NodeCordon
from windlass.server.operator.notebook_culler import NotebookCuller
from windlass.server.operator.ongoing_commit import OngoingCommit
from windlass.server.operator.queries.app import QueryServer
from windlass.server.operator.queries.authentication import Authenticator
from windlass.server.operator.queries.authorization import Authorizer
from windlass.server.operator.queries.leader_queries import LeaderQueries
from windlass.server.operator.telemetry_publisher import PublishedCluster, TelemetryPublisher
from windlass.server.operator.unstarted_pods import UnstartedPods
from windlass.server.operator.wait_diagnosis import WaitDiagnosis, withdraw_wait_verdicts
from windlass.server.service import Service
from windlass.server.telemetry_export.settings import ExportSettings
from windlass.server.telemetry_records.present_frames import present_frames
from windlass.telemetry.exposition import render_frames
from windlass.telemetry.frames import MetricFrame


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Settings of the ports."""

    open_queries: bool = False
    """Whether the port of the probes answers queries, of anybody: for a replica on the user's own machine."""
    protect_metrics: bool = False
    """Whether metrics are only on the port for queries, for users who may get /metrics."""
    rank_metrics: bool = False
    """Whether the metrics have series of each rank."""
    diagnoses_at_once: int = 1
    """Failed attempts that are diagnosed at the same time; 0: none is."""
    diagnoses_waits_after_s: float = 30.0
    """Seconds for which a job waits for the same obstacle before that is diagnosed."""
    cordon_limit: int = 0
    """Maximum number of nodes that are cordoned because diagnoses prove them bad."""
    cull_notebooks_ms: int = 0
    """Idle time after which Notebooks are stopped; 0: never."""
    exports: ExportSettings = field(default_factory=ExportSettings)


DEFAULT_SETTINGS = EndpointSettings()
_VERDICT_WAIT_MS = 60_000
"""Time for which the span of a failed attempt waits for the verdict."""
UNREADY = "the watches have not listed everything yet"


class Endpoints:
    """Endpoints of one process: `serve` runs for its whole life, `lead` and `follow` change its role.

    `unready`: reason why this replica cannot lead, empty once its watches have listed everything. `leader`: returns the
    identity of the leader.
    """

    def __init__(
        self, metrics: OperatorMetrics, history: JobHistory, settings: EndpointSettings = DEFAULT_SETTINGS
    ) -> None:
        self._metrics, self._history, self._settings = metrics, history, settings
        self.unready = UNREADY
        self.leader: Callable[[], str] = lambda: ""
        self._frames: Callable[[], Iterable[MetricFrame]] = tuple
        self._api: ASGIApp | None = None
        self._queries: LeaderQueries | None = None
        self.dashboard: LeaderDashboard | None = None
        """Pages for users while this replica leads."""
        self._feed = EventFeed()
        self._recorder: HistoryRecorder | None = None
        self._diagnosis: tuple[FailureDiagnosis | NodeCordon, ...] = ()
        self._waits: WaitDiagnosis | None = None
        self._publisher: TelemetryPublisher | None = None
        self._culler: NotebookCuller | None = None

    def lead(
        self, controller: Controller, backend: KubernetesBackend, recovered: Sequence[JobState]
    ) -> Sequence[Observer]:
        """Makes this replica answer the API. Returns the observers of its controller: history, metrics, followers."""
        self._feed = EventFeed()
        self._recorder = recorder = HistoryRecorder(
            backend, self._history.writer, keeps_starts=self._settings.diagnoses_at_once > 0
        )
        recorder.record_recovery(recovered)
        self._metrics.sizes["logs to read"] = lambda: recorder.pending_reads
        commit = OngoingCommit()
        records = ClusterJobRecords(controller, backend, self._history, commit)
        source = ClusterDataSource(backend, self._history, records)
        self._frames = lambda: present_frames(controller, lambda state: records.ranks_seen(state, ()), backend.now())
        service = Service(controller, source, self._feed, "operator")
        service.list_schedules = partial(schedule_lines, backend)
        self._api, self._queries = cluster_api(service, records), LeaderQueries(service, records)
        self.dashboard = LeaderDashboard(service, controller, records, backend, self._feed)
        self.dashboard.start()
        self._metrics.leading = True
        self._publish(records, backend)
        if limit_ms := self._settings.cull_notebooks_ms:
            self._culler = NotebookCuller(backend, limit_ms)
            self._culler.start()
        observers: list[Observer] = [
            recorder,
            TurnTimer(self._metrics, lambda: controller.decision),
            self._feed,
            commit,
        ]
        if at_once := self._settings.diagnoses_at_once:
            nodes = backend.cluster.picture.objects
            attempt = AttemptDiagnosis(service, records, recorder, nodes, partial(_last_wait, backend))
            diagnosis = _diagnosis(attempt, backend, recovered, at_once)
            limit = self._settings.cordon_limit
            cordon = (NodeCordon(backend.connection, limit, backend.on_trouble),) if limit else ()
            self._diagnosis = (diagnosis, *cordon)
            after_s = self._settings.diagnoses_waits_after_s
            events = UnstartedPods(backend, partial(list_events, backend.connection), after_s)
            self._waits = WaitDiagnosis(backend, diagnose_wait, after_s, events)
            self._waits.start()
        else:
            withdraw_wait_verdicts(backend)
        return [*observers, *self._diagnosis]

    def _publish(self, records: ClusterJobRecords, backend: KubernetesBackend) -> None:
        """Begins to export telemetry, if the settings name a receiver."""
        if not self._settings.exports.is_on:
            return
        verdict_wait = _VERDICT_WAIT_MS if self._settings.diagnoses_at_once else 0
        frames = self._frames
        cluster = PublishedCluster(records, self._history, self._metrics, frames, backend.now, verdict_wait)
        self._publisher = TelemetryPublisher(self._settings.exports, cluster, backend.on_trouble)
        self._publisher.start()

    def complain(self, trouble: str) -> None:
        """Records a failed commit, which is repeated. For `on_trouble` of `controller.run`."""
        self._feed.complain(trouble)

    async def follow(self) -> None:
        """Stops answering the API and ends the event streams."""
        self._frames, self._api, self._queries = tuple, None, None
        self._metrics.leading = False
        self._feed.close()
        if self.dashboard is not None:
            await self.dashboard.close()
            self.dashboard = None
        for each in self._diagnosis:
            await each.close()
        self._diagnosis = ()
        if self._culler is not None:
            await self._culler.close()
            self._culler = None
        if self._waits is not None:
            await self._waits.close()
            self._waits = None
        if self._recorder is not None:
            await self._recorder.close()
            self._recorder = None
        if self._publisher is not None:
            await self._publisher.close()
            self._publisher = None

    async def serve(self, listener: socket.socket, limits: HttpLimits = DEFAULT_LIMITS) -> None:
        """Serves probes and metrics on this socket until cancelled."""
        app = probe_application(None if self._settings.protect_metrics else self._render, lambda: self.unready)
        if self._settings.open_queries:
            app = with_open_queries(app, self.find_leader, lambda: self._api)
        await bounded_server(app, limits).serve_until_cancelled(listener, self._close_feed)

    def queries(self, authenticator: Authenticator, authorizer: Authorizer, report: Callable[[str], None]) -> ASGIApp:
        """The application of the port for queries. `report` is told of errors whose text users do not get."""
        terms = (lambda: self._queries), self.find_leader
        return QueryServer(authenticator, authorizer, *terms, self._render, report).application()

    def _render(self) -> bytes:
        """Metrics of this process, and on the leader those of the cluster, its queues and its jobs."""
        frames = render_frames(self._frames(), ranks=self._settings.rank_metrics) if self._metrics.leading else b""
        return render_metrics(self._metrics, self._history) + frames

    def _close_feed(self) -> None:
        self._feed.close()

    def find_leader(self) -> str:
        """Identity of the leader, for the answers of a replica that follows."""
        return self.leader()


def _diagnosis(
    attempt: AttemptDiagnosis, backend: KubernetesBackend, recovered: Sequence[JobState], at_once: int
) -> FailureDiagnosis:
    """Returns the observer that diagnoses failures, first those that the last leader has left."""
    found = FailureDiagnosis(attempt.diagnose, backend.inbox.put, at_once)
    ended = [gang.state for gang in backend.jobs if gang.stored is not None]
    found.add(state for state in (*recovered, *ended) if is_recent(state, backend.now()))
    return found


def _last_wait(backend: KubernetesBackend, job_id: str) -> LastWait:
    gang = backend.jobs.get(job_id)
    return LastWait() if gang is None else gang.notes.last_wait


def listen(host: str, port: int, option: str = "--metrics-port") -> socket.socket:
    """A listening socket; port 0 selects a free port. `option`: what sets the port. Raises BackendError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        raise BackendError(f"cannot listen on {host} port {port}: {error}; choose another with {option}") from error
