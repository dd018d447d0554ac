"""The dashboard of one leadership term: its controller, the versions of its state, and the answers kept of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

from starlette.types import ASGIApp

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.reviews import AccessRight, User
from windlass.backends.port import BackendError
from windlass.controller.controller import Controller
from windlass.jobs.kubernetes.query_api import OF_CLUSTER
from windlass.server.dashboard.app import Dashboard
from windlass.server.dashboard.audience import Audience
from windlass.server.dashboard.first_starts import FirstStarts
from windlass.server.dashboard.pages import PageViews
from windlass.server.dashboard.sessions import Session
from windlass.server.dashboard.state_version import StateVersion
from windlass.server.dashboard.time_axis import TimeAxis
from windlass.server.feed import EventFeed
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.dashboard.cluster_pages import AnswerTurns, ClusterPages
from windlass.server.operator.dashboard.cluster_sources import ClusterSources
from windlass.server.operator.dashboard.identity_door import IdentityDoor
from windlass.server.operator.dashboard.live_logs import LiveLogs
from windlass.server.operator.dashboard.object_actions import ObjectActions
from windlass.server.operator.dashboard.request_limit import RequestLimit
from windlass.server.operator.dashboard.user_sessions import UserSession
from windlass.server.operator.queries.app import NO_ANSWER
from windlass.server.operator.queries.authorization import Authorizer, query_right
from windlass.server.operator.queries.expiring_cache import ExpiringCache
from windlass.server.operator.queries.fair_turns import FairTurns, limit_key
from windlass.server.service import Service

_STREAMS_EACH = 32
"""Maximum number of open pages of one user."""
_NAMESPACES_LIFE_S = 10.0
_HISTORY_S = 3.0
"""Seconds after which a history that does not answer leaves the namespaces that it has named last."""
_AUDIENCE_LIFE_S = 10.0
"""Seconds for which what a user may read is not computed again from its rights."""
_MAX_AUDIENCES = 1_000
_AUDIENCES_AT_ONCE, _AUDIENCES_EACH = 8, 2
"""Maximum number of audiences that are computed at once: for all users, and for one."""


@dataclass(slots=True)
class LeaderDashboard:
    """Pages of all users while this replica leads. `start` and `close` begin and end the event streams."""

    service: Service
    controller: Controller
    records: ClusterJobRecords
    backend: KubernetesBackend
    feed: EventFeed
    _term: str = field(default_factory=partial(secrets.token_hex, 8))
    _turns: AnswerTurns = field(default_factory=AnswerTurns)
    _axis: TimeAxis = field(default_factory=TimeAxis)
    _starts: FirstStarts = field(default_factory=FirstStarts)
    _recorded: ExpiringCache[str, frozenset[str]] = field(default_factory=lambda: ExpiringCache(1, _NAMESPACES_LIFE_S))
    _last_recorded: frozenset[str] | None = None
    """Namespaces that history has named last; None before its first answer."""
    _known: tuple[int, frozenset[str]] = (0, frozenset())
    """Namespaces, and the version at which they were found. Equal sets are one object, which many audiences share."""
    _audiences: ExpiringCache[tuple[User, frozenset[str]], Audience] = field(
        default_factory=lambda: ExpiringCache(_MAX_AUDIENCES, _AUDIENCE_LIFE_S)
    )
    """By user, and the namespaces that there are."""
    _audience_turns: FairTurns = field(default_factory=partial(FairTurns, _AUDIENCES_AT_ONCE, _AUDIENCES_EACH))
    _versions: StateVersion = field(init=False)
    _live: LiveLogs = field(init=False)
    _counting: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._versions = StateVersion(self.feed)

    def start(self) -> None:
        """Counts versions of the state until the feed closes."""
        self._live = LiveLogs(self.backend)
        self._counting = asyncio.create_task(self._versions.run())

    async def close(self) -> None:
        """Waits until the streams are told to end: the feed is closed."""
        if self._counting is not None:
            await self._counting

    def application(self, door: IdentityDoor, authorizer: Authorizer) -> ASGIApp:
        """The application of one port, behind its guard."""

        async def pages_of(session: Session) -> ClusterPages:
            assert isinstance(session, UserSession)  # noqa: S101 - the door's
            return await self._pages_of(session, door, authorizer)

        pages = Dashboard(pages_of, self._versions, explain=self._explain, streams_each=_STREAMS_EACH)
        return RequestLimit(pages.application())

    def _explain(self, error: BackendError) -> str:
        """Writes an error to the log: its text may name jobs and servers that the user may not see."""
        self.backend.on_trouble(f"the dashboard cannot answer: {error}")
        return NO_ANSWER

    async def _pages_of(self, session: UserSession, door: IdentityDoor, authorizer: Authorizer) -> ClusterPages:
        reviewed = await self._namespaces_of_version()
        audience = await self._find_audience_among(reviewed, authorizer, session.user)
        sources = ClusterSources(
            self.records, self._live, limit_key(session.user), partial(_may_read_pods, authorizer, session.user)
        )
        views = PageViews(self.service, self.controller, sources, self._axis, self._starts, audience)
        actions = ObjectActions(self.backend, authorizer)

        async def is_unchanged() -> bool:
            return await door.lasts(session) and await self._find_audience(authorizer, session.user) == audience

        async def hidden() -> Collection[str]:
            if audience.namespaces is None:
                return ()
            later = await self._namespaces() - reviewed
            return reviewed - audience.namespaces | await authorizer.hidden(session.user, later)

        return ClusterPages(session, views, hidden, authorizer, actions, self._term, self._turns, is_unchanged)

    async def _find_audience(self, authorizer: Authorizer, user: User) -> Audience:
        return await self._find_audience_among(await self._namespaces_of_version(), authorizer, user)

    async def _find_audience_among(self, known: frozenset[str], authorizer: Authorizer, user: User) -> Audience:
        return await self._audiences.fetch((user, known), partial(self._review_audience, authorizer, user, known))

    async def _review_audience(self, authorizer: Authorizer, user: User, known: frozenset[str]) -> Audience:
        async with self._audience_turns.take(limit_key(user)):
            return await find_audience(authorizer, user, known)

    async def _namespaces(self) -> frozenset[str]:
        """Namespaces of the jobs and schedules that exist now, and of jobs that ended last. Raises BackendError."""
        return frozenset(await self._recorded.fetch("", self._read_recorded) | self._present())

    def _present(self) -> set[str]:
        return self.service.namespaces() | self.backend.schedules.namespaces()

    async def _namespaces_of_version(self) -> frozenset[str]:
        """The namespaces at the current version of the state, computed once for all open pages. Raises BackendError."""
        recorded = await self._recorded.fetch("", self._read_recorded)
        version, known = self._known
        if version != self._versions.number:
            found = recorded | self._present()
            self._known = self._versions.number, known if found == known else found
        return self._known[1]

    async def _read_recorded(self) -> frozenset[str]:
        """Namespaces that history names, or has named last if it does not answer in time. Raises BackendError."""
        try:
            async with asyncio.timeout(_HISTORY_S):
                self._last_recorded = frozenset(await self.records.namespaces())
        except TimeoutError:
            if self._last_recorded is None:
                raise BackendError(f"history has not named its namespaces within {_HISTORY_S:g} s") from None
        return self._last_recorded


async def find_audience(authorizer: Authorizer, user: User, namespaces: frozenset[str]) -> Audience:
    """The namespaces whose jobs a user may list, and the resources of the cluster. Raises BackendError."""
    allowed = await asyncio.gather(*(authorizer.allows(user, query_right("list", each)) for each in OF_CLUSTER))
    resources = frozenset(each for each, may in zip(OF_CLUSTER, allowed, strict=True) if may)
    audience = Audience(None, resources)
    if await authorizer.allows(user, query_right("list", "jobs")):
        return audience
    return replace(audience, namespaces=namespaces - await authorizer.hidden(user, namespaces))


async def _may_read_pods(authorizer: Authorizer, user: User, namespace: str) -> bool:
    return await authorizer.allows(user, AccessRight("get", "pods/log", namespace))
