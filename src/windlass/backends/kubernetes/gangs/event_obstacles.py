"""Obstacles to the start of a pod that its Events alone name: volumes, its sandbox, its creation, its placement.

Source of the reasons: k8s.io/kubernetes v1.36, pkg/kubelet/events/event.go, pkg/controller/controller_utils.go, and
pkg/controller/volume/attachdetach/reconciler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.backends.kubernetes.client.pod_events import PodEvent
from windlass.jobs.kubernetes.status.status_times import milliseconds

PLACEMENT = "placement"
_TOPICS = {
    "FailedMount": "volume",
    "FailedAttachVolume": "volume",
    "FailedMapVolume": "volume",
    "FailedCreatePodSandBox": "sandbox",
    "NetworkNotReady": "sandbox",
    "FailedCreate": "creation",
    "FailedScheduling": PLACEMENT,
}
"""Topic of each warning."""
_STARTED = frozenset({"volume", "sandbox", PLACEMENT})
_PASSED = {
    "Scheduled": frozenset({PLACEMENT}),
    "SuccessfulCreate": frozenset({"creation"}),
    **dict.fromkeys(("Pulling", "Pulled", "Created", "Started"), _STARTED),
}
"""Topics that are over by the reason of a later Event: a kubelet mounts, makes the sandbox, then pulls images."""
_MAX_LINES = 4
_MAX_MESSAGE = 1024
"""Characters of an Event's message that are kept; the API server cuts none of those that are written by API."""


class EventObstacle(NamedTuple):
    """An obstacle of an attempt. `about`: uid of the pod or Job with the Events; `text`: lines of evidence."""

    attempt: int
    about: str
    topic: str
    text: str


def find_obstacle(attempt: int, about: str, events: Sequence[PodEvent]) -> EventObstacle | None:
    """Returns the obstacle that the newest Events of an object name; None if the object has passed all of them.

    Events that Windlass writes are left out. Any writer of Events may name any reporter, so they prove little.
    """
    topic, lines, passed = "", list[str](), set[str]()
    for event in sorted((each for each in events if not each.is_own), key=_order, reverse=True):
        found = _TOPICS.get(event.reason, "") if event.type == "Warning" else ""
        passed |= _PASSED.get(event.reason, frozenset())
        line = f"{event.reason}: {' '.join(event.message[:_MAX_MESSAGE].split())}"
        if found and found not in passed and found == (topic or found) and line not in lines:
            topic = found
            lines.append(line)
    return EventObstacle(attempt, about, topic, "\n".join(lines[:_MAX_LINES])) if topic else None


def _order(event: PodEvent) -> tuple[int, bool]:
    """Returns the time of an Event; of two in the same second the warning is the earlier one."""
    return milliseconds(event.last_seen) or 0, event.type != "Warning"
