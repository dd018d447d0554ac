"""The reason why pods of a started gang do not run yet: an image, or another scheduler that has not placed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.image_waits import image_condition
from windlass.backends.kubernetes.gangs.run import Run

_NOT_PLACED = "NotPlaced"


class MemberWait(NamedTuple):
    """A reason in one word, and a sentence."""

    reason: str
    message: str


def pods_without_image(gang: Gang) -> Sequence[Pod]:
    """Returns the pods of a run that wait for an image."""
    if gang.run is None:
        return ()
    return [pod for number in sorted(gang.run.pods.without_image) if (pod := gang.run.pods.get(number)) is not None]


def member_wait(gang: Gang) -> MemberWait | None:
    """Returns why pods of a gang's run do not run yet; None if nothing is known that keeps them."""
    if gang.run is None or gang.run.stopping:
        return None
    if (condition := image_condition(pods_without_image(gang), ())) is not None:
        return MemberWait(condition["reason"], condition["message"])
    return _placement_wait(gang.job.placed_by, gang.run) if gang.job.placed_by else None


def _placement_wait(scheduler: str, run: Run) -> MemberWait | None:
    """Returns what the other scheduler has not placed, with the first reason that it has written into a pod."""
    unplaced = [pod for number, pod in sorted(run.pods.by_number.items()) if not pod.spec.node_name]
    if not unplaced:
        return None
    said = (each for pod in unplaced for each in pod.status.conditions if each.type == "PodScheduled")
    why = next((f": {each.message}" for each in said if each.status == "False" and each.message), "")
    return MemberWait(_NOT_PLACED, f"{scheduler} has not placed {len(unplaced)} of {len(run.slots)} pods{why}")
