"""Writes the reasons of pending gangs to their jobs, pods and PodGroups, and why running ones lack replicas.

The plan computes a verdict when it is read. It is read seldom: a message whose counts change with every turn need not
be written every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.pending_conditions import changes_materially
from windlass.controller.controller import Controller
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState, Phase

_FIRST_DELAY_S, _ROUND_INTERVAL_S = 0.5, 10.0
"""Delay of the first reason of a gang, and time between two rounds over all pending gangs."""
_BATCH = 50
"""Verdicts computed before other tasks of the loop run."""


async def write_reasons(controller: Controller, backend: KubernetesBackend) -> None:
    """Writes reasons until cancelled."""
    written: dict[str, int] = {}
    short: set[str] = set()
    last_round = -_ROUND_INTERVAL_S
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_FIRST_DELAY_S)
        waiting = {state.id: state for state in controller.states.values() if state.status.phase is Phase.QUEUED}
        for job_id in written.keys() - waiting.keys():
            del written[job_id]
            _forget(backend, job_id)
        version = controller.plan.version
        again = loop.time() - last_round >= _ROUND_INTERVAL_S
        due = [state for name, state in waiting.items() if name not in written or (again and written[name] != version)]
        if again:
            last_round = loop.time()
        await _write_all(controller, backend, due)
        _write_missing(controller.plan.missing, short, backend)
        short = set(controller.plan.missing)
        written.update((state.id, version) for state in due)


async def _write_all(controller: Controller, backend: KubernetesBackend, states: Iterable[JobState]) -> None:
    for count, state in enumerate(states):
        if count % _BATCH == _BATCH - 1:
            await asyncio.sleep(0)
        verdict = controller.plan.verdicts.get(state.id)
        gang = backend.jobs.get(state.id) or backend.external.get(state.id)
        if verdict is not None and gang is not None:
            with backend.faults.contain(gang.reference, "explain", partial(write_reason, backend, state.id, verdict)):
                write_reason(backend, state.id, verdict)


def _write_missing(verdicts: Mapping[str, Verdict], before: Collection[str], backend: KubernetesBackend) -> None:
    """Writes why gangs lack replicas that their owners request, and forgets it for those of `before` that have them."""
    for job_id in sorted({*verdicts, *before}):
        gang = backend.jobs.get(job_id)
        if gang is None:
            continue
        verdict, notes = verdicts.get(job_id), gang.notes
        reason = "" if verdict is None else verdict.reason.value
        message = "" if verdict is None else backend.redaction.message(verdict.message, gang.reference.namespace)
        if notes.missing_reason != reason or changes_materially(notes.missing_message, message):
            notes.missing_reason, notes.missing_message, notes.needs_write = reason, message, True
            backend.changed.mark(gang)


def write_reason(backend: KubernetesBackend, job_id: str, verdict: Verdict) -> None:
    """Writes the reason of one pending gang. Users of its namespace may read it: it names no job of another one."""
    gang, message = backend.jobs.get(job_id), backend.redaction.message(verdict.message, job_id.partition("/")[0])
    if gang is None:
        backend.external.say(job_id, message)
        return
    reason = verdict.reason.value
    if gang.notes.pending_reason != reason or changes_materially(gang.notes.pending_message, message):
        gang.notes.pending_message, gang.notes.pending_reason, gang.notes.needs_write = message, reason, True
        backend.changed.mark(gang)
    backend.pending.say(job_id, message, lambda: backend.pods.owned(gang.reference.owner_key))


def _forget(backend: KubernetesBackend, job_id: str) -> None:
    gang: Gang | None = backend.jobs.get(job_id)
    if gang is not None:
        gang.notes.pending_message = gang.notes.pending_reason = ""
    backend.pending.forget(job_id)
