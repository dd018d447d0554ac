"""Assigns a late pod to the slot of a finished member of a running gang.

The controller holds the nodes of a gang until all of it has ended. So the next pod of a batch Job, or one that
replaces a failed pod, takes that pod's slot if its requests are the same; it does not wait for nodes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import asks
from windlass.backends.kubernetes.external.external_gang import ExternalGang
from windlass.backends.kubernetes.pods.pod_ends import was_turned_away
from windlass.core.model.job import Role
from windlass.jobs.kubernetes.external.roles import Terms, roles_of
from windlass.jobs.kubernetes.manifest_reader import ManifestError


def find_free_member(
    gang: ExternalGang, late: Pod, terms: Callable[[Pod], Terms], is_usable: Callable[[str], bool]
) -> int | None:
    """Returns the member whose slot a late pod may take."""
    allocation = gang.allocation
    if allocation is None or not allocation.whole or allocation.stopping or allocation.tracker.succeeded:
        return None
    free = [
        number
        for number in sorted(gang.ended)
        if number not in allocation.closed
        and not ((pod := gang.now[number]) is not None and was_turned_away(pod))
        and is_usable(allocation.nodes[number])
    ]
    if not free:
        return None
    try:
        wanted = _plain(roles_of([late], asks, terms)[0][0])
    except ManifestError:
        return None
    roles = [_plain(role) for role in gang.job.roles for _ in range(role.replicas)]
    return next((number for number in free if roles[number] == wanted), None)


def _plain(role: Role) -> Role:
    """Returns the role without its name and replicas, to compare requests."""
    return replace(role, name="", replicas=1)
