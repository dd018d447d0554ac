"""Asks the core for the slot of a late pod: a pod of a running external gang that appears after the gang was placed.

The core decides by its requests and the nodes (`core.placement.replacement`). The backend reports which members have
ended and may be replaced: a node whose kubelet has rejected a pod would reject another one like it.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import requests_of
from windlass.backends.kubernetes.external.external_gang import ExternalGang, placement_of
from windlass.backends.kubernetes.pods.pod_ends import was_turned_away
from windlass.core.placement.replacement import find_replaced_member
from windlass.jobs.kubernetes.external.roles import Terms, roles_of
from windlass.jobs.kubernetes.manifest_reader import ManifestError


def find_slot(gang: ExternalGang, late: Pod, terms: Callable[[Pod], Terms], fits: Callable[[str], bool]) -> int | None:
    """Returns the member that a late pod replaces; None: it joins no gang. `fits`: see `find_replaced_member`."""
    allocation = gang.allocation
    if allocation is None or not allocation.whole or allocation.stopping or allocation.tracker.succeeded:
        return None
    rejected = {number for number in gang.ended if (pod := gang.now[number]) is not None and was_turned_away(pod)}
    replaceable = gang.ended - allocation.closed - rejected
    if not replaceable:
        return None
    try:
        wanted = roles_of([late], requests_of, terms)[0][0]
    except ManifestError:
        return None
    return find_replaced_member(gang.job, placement_of(gang.job, allocation.nodes), replaceable, fits, wanted)
