"""Why gangs wait is told where people look: on the job, on its pods, on the PodGroup.

The plan knows it, and works it out when it is asked. It is asked seldom: a sentence whose numbers change with every
turn need not be written every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.pending_conditions import changes_materially
from windlass.controller import Controller
from windlass.core.model.reasons import Verdict
from windlass.core.model.status import JobState, Phase

_FIRST, _EVERY = 0.5, 10.0
"""Seconds from something new to the first sentence about it, and between two rounds over all that wait."""
_AT_A_TIME = 50
"""Verdicts worked out before others have their turn."""


async def write_reasons(controller: Controller, world: KubernetesBackend) -> None:
    """Until cancelled."""
    told: dict[str, int] = {}
    last_round = -_EVERY
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_FIRST)
        waiting = {state.id: state for state in controller.states.values() if state.status.phase is Phase.QUEUED}
        for job_id in told.keys() - waiting.keys():
            del told[job_id]
            _forget(world, job_id)
        version = controller.plan.version
        again = loop.time() - last_round >= _EVERY
        due = [state for job_id, state in waiting.items() if job_id not in told or (again and told[job_id] != version)]
        if again:
            last_round = loop.time()
        await _tell(controller, world, due)
        told.update((state.id, version) for state in due)


async def _tell(controller: Controller, world: KubernetesBackend, states: Iterable[JobState]) -> None:
    for count, state in enumerate(states):
        if count % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        verdict = controller.plan.verdicts.get(state.id)
        if verdict is not None:
            write_reason(world, state.id, verdict)


def write_reason(world: KubernetesBackend, job_id: str, verdict: Verdict) -> None:
    """Have a gang's objects say why it waits."""
    gang = world.jobs.get(job_id)
    if gang is None:
        world.external.say(job_id, verdict.message)
        return
    reason = verdict.reason.value
    if gang.notes.waits_reason != reason or changes_materially(gang.notes.waits, verdict.message):
        gang.notes.waits, gang.notes.waits_reason, gang.notes.stale = verdict.message, reason, True
        world.changed.mark(gang)
    world.pending.say(job_id, verdict.message, lambda: world.pods.owned(gang.home.uid))


def _forget(world: KubernetesBackend, job_id: str) -> None:
    gang: Gang | None = world.jobs.get(job_id)
    if gang is not None:
        gang.notes.waits = gang.notes.waits_reason = ""
    world.pending.forget(job_id)
