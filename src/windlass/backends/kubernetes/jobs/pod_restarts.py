"""Jobs whose pods are made anew one by one, as the training operator does it: what is to be done about each look.

The core knows such a gang as one run. Within it pods come and go on the nodes that the gang has; what the run has come
to is the judgement's to say. A pod that could not go on where it was makes the gang look for other nodes, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import REJECTED
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.status import conditions as told
from windlass.jobs.kubernetes.status import job_status
from windlass.jobs.kubernetes.status.replica_outcome import Judgement


@dataclass(frozen=True, slots=True)
class ToDo:
    """`make`: names of members to make anew, on their nodes. `dismiss`: pods to delete."""

    make: tuple[str, ...] = ()
    dismiss: tuple[Pod, ...] = ()


def look(
    gang: Gang,
    run: Run,
    besides: Sequence[dict[str, Any]],
    is_closed: Callable[[str], bool],
    now: int,
) -> ToDo:
    """Judge a run of which every pod has been there; the gang and the run hear of it.

    `besides`: what else the kind is judged by, as a launcher's Job. `is_closed`: whether nothing may start on a node
    of this name.
    """
    objects = [*(_plain(pod, run) for pod in run.pods.all()), *besides]
    judgement = registry.judge(gang.parsed, objects, remade=gang.notes.remade)
    gang.notes.remade += judgement.anew
    begun = any(pod.status.phase != "Pending" for pod in run.pods.all())
    said = _said(gang, judgement, now, over=(told.QUEUED, told.ADMITTED) if begun else (told.QUEUED,))
    gang.notes.stale |= said != gang.notes.judged
    gang.notes.judged = said
    run.outcome = _outcome(judgement)
    names = gang.pod_names(run)
    missing = [name for name in judgement.create if name in names]
    for name in missing:
        slot = run.slots[names[name]]
        if is_closed(slot.node):
            detail = f"{name} cannot go on: nothing may start on {slot.node} any more"
            run.failed[slot.number] = Exit(lost=True, end_class=REJECTED, detail=detail)
    by_name = {pod.metadata.name: pod for pod in run.pods.all()}
    gone = tuple(by_name[name] for name in judgement.delete if name in by_name)
    run.dismissed.update(pod.metadata.uid for pod in gone)
    return ToDo(() if run.failed or judgement.ended else tuple(missing), gone)


def _plain(pod: Pod, run: Run) -> dict[str, Any]:
    """The pod as the API has it; one that was told to go is on its way, whether or not that was seen yet."""
    plain: dict[str, Any] = msgspec.to_builtins(pod)
    if pod.metadata.uid in run.dismissed:
        plain["metadata"].setdefault("deletionTimestamp", "now")
    return plain


def _outcome(judgement: Judgement) -> Exit | None:
    if not judgement.ended:
        return None
    word = next(each for each in judgement.conditions if each["type"] == judgement.ended)
    return Exit(code=0 if judgement.ended == told.SUCCEEDED else 1, detail=str(word.get("message", "")))


def _said(gang: Gang, judgement: Judgement, now: int, over: Collection[str]) -> dict[str, Any]:
    """The status after a judgement. `over`: conditions that have passed: the gang does not wait any more."""
    past = [_over(each) if each["type"] in over else each for each in judgement.conditions]
    before = gang.parsed.manifest.get("status") or {}
    return job_status.status(gang.parsed, replace(judgement, conditions=tuple(past)), before, now)


def _over(condition: dict[str, Any]) -> dict[str, Any]:
    return {**condition, "status": "False"}
