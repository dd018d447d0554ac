"""Diagnoses jobs that wait for longer than a short time, beside the controller's loop: a verdict without an end.

A verdict on a wait is kept in memory and shown; it is no part of the job's state, and decides nothing. A new leader
reads it from the job's condition, and keeps it until it has seen and diagnosed the wait itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.gangs.gang import Gang, LastWait
from windlass.backends.kubernetes.status.job_waits import JobWait, WaitKind, job_wait
from windlass.backends.kubernetes.status.pending_conditions import changes_materially
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Phase
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText
from windlass.server.operator.unstarted_pods import UnstartedPods

_ROUND_INTERVAL_S = 2.0
_WAITING_PHASES = (Phase.CREATED, Phase.QUEUED, Phase.ADMITTED)
_MAX_KNOWN_TEXTS = 512
"""Texts whose verdict is kept: jobs of one kind often wait for the same."""


@dataclass(slots=True)
class KnownWait:
    """A wait that was seen in each round since `since`, in seconds of the event loop."""

    wait: JobWait
    since: float
    diagnosed: str | None = None
    """Topic of the wait that was diagnosed."""

    @property
    def is_diagnosed(self) -> bool:
        """Whether the obstacle is the one that was diagnosed, by its topic."""
        return self.diagnosed == self.wait.topic

    def follow(self, wait: JobWait, now: float) -> None:
        """Takes what the job waits for at present. After a diagnosis, the time of another topic counts anew."""
        was_diagnosed, self.wait = self.is_diagnosed, wait
        if was_diagnosed and not self.is_diagnosed:
            self.since = now

    def covers(self, other: JobWait) -> bool:
        """Tells whether another wait is the same one. A kubelet alternates between messages about one obstacle."""
        if (self.wait.kind, self.wait.generation) != (other.kind, other.generation):
            return False
        return other.kind is WaitKind.START or not changes_materially(self.wait.text, other.text)


class WaitDiagnosis:
    """Looks at all jobs again and again, and diagnoses the waits that have lasted for `after_s`, one at a time.

    `diagnose` returns the verdict on a wait; whatever it raises is reported, and the wait is diagnosed again later.
    `events`: reader of the Events of pods that do not start.
    """

    def __init__(
        self,
        backend: KubernetesBackend,
        diagnose: Callable[[EvidenceRequest], Awaitable[DiagnosedCause]],
        after_s: float,
        events: UnstartedPods,
    ) -> None:
        self._backend, self._diagnose, self._after_s, self._events = backend, diagnose, after_s, events
        self._waits: dict[str, KnownWait] = {}
        self._verdicts: dict[str, DiagnosedCause] = {}
        """By text of a wait, the latest last; the attempt in it is that of whichever job was diagnosed."""
        self._inherited: dict[str, float] = {}
        """By job whose verdict is that of an earlier leader, and whose wait is not seen yet: since when it is known."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to look at the jobs."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stops; the verdicts that are shown stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(_ROUND_INTERVAL_S, self._after_s))
            try:
                await self.look(asyncio.get_running_loop().time())
            except Exception as error:  # noqa: BLE001 - one round must not end the diagnosis of all later waits
                self._backend.on_trouble(f"a round of the diagnosis of waits: {error or type(error).__name__}")

    async def look(self, now: float) -> None:
        """Looks at all jobs once. `now`: seconds of a steady clock."""
        # 1. obstacles that only Events name
        await self._events.look(now)
        # 2. which jobs wait for what, and since when
        self._note_waits(now)
        # 3. verdicts that are known already, for any number of jobs
        for gang, known in [*self._due(now)]:
            self._tell(gang, known)
        # 4. a diagnosis of the wait that has lasted longest
        for gang, known in sorted(self._due(now), key=lambda each: each[1].since)[:1]:
            if await self._is_diagnosed(gang, known.wait):
                self._tell(gang, known)
            else:
                known.since = now

    def _note_waits(self, now: float) -> None:
        """Notes all waits, and withdraws the verdicts on those that are over."""
        before, self._waits = self._waits, {}
        for gang in list(self._backend.jobs):
            wait, known = job_wait(gang, self._backend.now()), before.get(gang.id)
            is_same = wait is not None and known is not None and known.covers(wait)
            if gang.notes.wait_verdict is not None and not is_same and not self._is_inherited(gang, known, now):
                self._backend.show_wait_verdict(gang, None)
            if wait is not None:
                self._waits[gang.id] = _continued(known if is_same else None, wait, self._since(gang, wait, now), now)
                gang.notes.last_wait = LastWait(wait.generation, wait.text, wait.from_events)
        self._inherited = {job_id: since for job_id, since in self._inherited.items() if job_id not in self._waits}

    def _is_inherited(self, gang: Gang, known: KnownWait | None, now: float) -> bool:
        """Tells whether the verdict of an earlier leader stays: the job may still wait, but is not seen to wait yet.

        What a job waits for is known again once its pods were listed, created or planned.
        """
        verdict, life = gang.notes.wait_verdict, gang.status
        attempt = life.generation if life.phase is Phase.ADMITTED else 0
        is_possible = life.phase in _WAITING_PHASES and verdict is not None and verdict.generation == attempt
        is_recent = now - self._inherited.setdefault(gang.id, now) < self._after_s
        return known is None and is_possible and (is_recent or self._events.is_unread(gang.id))

    def _since(self, gang: Gang, wait: JobWait, now: float) -> float:
        """Returns since when a wait lasts that is seen for the first time: Events are read late."""
        seen = gang.notes.event_obstacle
        return self._events.since(gang.id, now) if seen is not None and seen.text == wait.text else now

    def _due(self, now: float) -> Iterator[tuple[Gang, KnownWait]]:
        for job_id, known in self._waits.items():
            gang = self._backend.jobs.get(job_id)
            if gang is not None and not known.is_diagnosed and now - known.since >= self._after_s:
                yield gang, known

    async def _is_diagnosed(self, gang: Gang, wait: JobWait) -> bool:
        """Diagnoses a wait and keeps the verdict by its text. Returns whether there is one."""
        text = self._text(gang, wait)
        request = EvidenceRequest(wait.generation, texts=[LoggedText(f"wait of {gang.id}", f"{text}\n")])
        try:
            self._verdicts[text] = await self._diagnose(request)
        except Exception as error:  # noqa: BLE001 - a job's evidence must not end the diagnosis of other waits
            self._backend.on_trouble(f"the wait of {gang.id} is not diagnosed: {error or type(error).__name__}")
            return False
        while len(self._verdicts) > _MAX_KNOWN_TEXTS:
            del self._verdicts[next(iter(self._verdicts))]
        return True

    def _text(self, gang: Gang, wait: JobWait) -> str:
        """Returns the text of a wait as users of the job's namespace may read it."""
        return self._backend.redaction.message(wait.text, gang.reference.namespace)

    def _tell(self, gang: Gang, known: KnownWait) -> None:
        """Shows the verdict, if one is known, names a cause, and the job still waits for the same."""
        found = self._verdicts.get(self._text(gang, known.wait))
        wait = job_wait(gang, self._backend.now())
        if found is None:
            return  # also where the text is redacted otherwise since its diagnosis, which the next round repeats
        known.diagnosed = known.wait.topic
        if wait is None or not known.covers(wait):
            return
        if found.rule:
            self._backend.show_wait_verdict(gang, replace(found, generation=wait.generation))
        elif gang.notes.wait_verdict is not None:
            self._backend.show_wait_verdict(gang, None)


def _continued(known: KnownWait | None, wait: JobWait, since: float, now: float) -> KnownWait:
    if known is None:
        return KnownWait(wait, since)
    known.follow(wait, now)
    return known


def withdraw_wait_verdicts(backend: KubernetesBackend) -> None:
    """Withdraws the verdicts of an earlier leader on waits, where this one diagnoses none."""
    for gang in list(backend.jobs):
        if gang.notes.wait_verdict is not None:
            backend.show_wait_verdict(gang, None)
