"""Diagnoses jobs that wait for longer than a short time, beside the controller's loop: a verdict without an end.

A verdict on a wait is kept in memory and shown; it is no part of the job's state, and decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.job_waits import JobWait, WaitKind, job_wait
from windlass.backends.kubernetes.status.pending_conditions import changes_materially
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.server.diagnosis.diagnosis_process import DiagnosisError
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText

_ROUND_INTERVAL_S = 2.0
_MAX_KNOWN_TEXTS = 512
"""Texts whose verdict is kept: jobs of one kind often wait for the same."""


@dataclass(slots=True)
class KnownWait:
    """A wait that was seen in each round since `since`, in seconds of the event loop."""

    wait: JobWait
    since: float
    is_diagnosed: bool = False

    def covers(self, other: JobWait) -> bool:
        """Tells whether another wait is the same one. A kubelet alternates between messages about one obstacle."""
        if (self.wait.kind, self.wait.generation) != (other.kind, other.generation):
            return False
        return other.kind is WaitKind.START or not changes_materially(self.wait.text, other.text)


class WaitDiagnosis:
    """Looks at all jobs again and again, and diagnoses the waits that have lasted for `after_s`, one at a time."""

    def __init__(
        self,
        backend: KubernetesBackend,
        diagnose: Callable[[EvidenceRequest], Awaitable[DiagnosedCause]],
        after_s: float,
    ) -> None:
        self._backend, self._diagnose, self._after_s = backend, diagnose, after_s
        self._waits: dict[str, KnownWait] = {}
        self._verdicts: dict[str, DiagnosedCause] = {}
        """By text of a wait, the latest last; the attempt in it is that of whichever job was diagnosed."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stops; the verdicts that are shown stay."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(min(_ROUND_INTERVAL_S, self._after_s))
            # 1. which jobs wait for what, and since when
            self.note_waits(asyncio.get_running_loop().time())
            # 2. the verdicts that are known, and that of the longest other wait
            await self._tell_due()

    def note_waits(self, now: float) -> None:
        """Notes all waits, and withdraws the verdicts on those that are over."""
        seen = {}
        for gang in list(self._backend.jobs):
            if (wait := job_wait(gang)) is not None:
                seen[gang.id] = wait
                gang.notes.last_wait = wait.generation, wait.text
            elif gang.notes.wait_verdict is not None:
                self._backend.show_wait_verdict(gang, None)
        known = self._waits
        self._waits = {job_id: _continued(known.get(job_id), wait, now) for job_id, wait in seen.items()}

    async def _tell_due(self) -> None:
        for gang, known in [*self._due()]:
            if known.wait.text in self._verdicts:
                self._tell(gang, known)
        for gang, known in sorted(self._due(), key=lambda each: each[1].since)[:1]:
            self._keep(known.wait.text, await self._verdict(gang, known.wait))
            self._tell(gang, known)

    def _due(self) -> Iterator[tuple[Gang, KnownWait]]:
        now = asyncio.get_running_loop().time()
        for job_id, known in self._waits.items():
            gang = self._backend.jobs.get(job_id)
            if gang is not None and not known.is_diagnosed and now - known.since >= self._after_s:
                yield gang, known

    async def _verdict(self, gang: Gang, wait: JobWait) -> DiagnosedCause:
        """Returns the verdict on a wait; one without a rule if the diagnosis fails."""
        text = self._backend.redaction.message(wait.text, gang.reference.namespace)
        request = EvidenceRequest(wait.generation, texts=[LoggedText(f"wait of {gang.id}", f"{text}\n")])
        try:
            return await self._diagnose(request)
        except DiagnosisError as error:
            self._backend.on_trouble(f"the wait of {gang.id} is not diagnosed: {error}")
            return DiagnosedCause(wait.generation, "")

    def _keep(self, text: str, cause: DiagnosedCause) -> None:
        self._verdicts[text] = cause
        while len(self._verdicts) > _MAX_KNOWN_TEXTS:
            del self._verdicts[next(iter(self._verdicts))]

    def _tell(self, gang: Gang, known: KnownWait) -> None:
        """Shows the verdict, if the job still waits for the same."""
        known.is_diagnosed = True
        if (wait := job_wait(gang)) is not None and known.covers(wait):
            found = self._verdicts[known.wait.text]
            self._backend.show_wait_verdict(gang, replace(found, generation=wait.generation) if found.rule else None)


def _continued(known: KnownWait | None, wait: JobWait, now: float) -> KnownWait:
    if known is None or not known.covers(wait):
        return KnownWait(wait, now)
    known.wait = wait
    return known
