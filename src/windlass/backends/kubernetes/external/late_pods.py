"""Who takes the place of a pod that has ended while the rest of its gang goes on.

The controller holds the places of a gang until all of it has ended. So the next pod of a batch Job, or one in the place
of another that failed, goes where that one was, if it asks for the same; it need not wait for room of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import asks
from windlass.backends.kubernetes.external.external_gang import ExternalGang, MembersNow, has_ended
from windlass.backends.kubernetes.pods.pod_ends import was_turned_away
from windlass.core.model.job import Role
from windlass.jobs.kubernetes.external.roles import Terms, roles_of
from windlass.jobs.kubernetes.manifest_reader import Refused


def vacancy(
    guest: ExternalGang, pods: MembersNow, comer: Pod, terms: Callable[[Pod], Terms], usable: Callable[[str], bool]
) -> int | None:
    """The member in whose place `comer` may go. `pods`: the gang's own, as they are now."""
    stay = guest.stay
    if stay is None or not stay.whole or stay.stopping or stay.ended:
        return None
    free = [
        number
        for number, pod in enumerate(pods)
        if has_ended(pod)
        and number not in stay.closed
        and not (pod is not None and was_turned_away(pod))
        and usable(stay.nodes[number])
    ]
    if not free:
        return None
    try:
        wanted = _plain(roles_of([comer], asks, terms)[0][0])
    except Refused:
        return None
    roles = [_plain(role) for role in guest.job.roles for _ in range(role.replicas)]
    return next((number for number in free if roles[number] == wanted), None)


def _plain(role: Role) -> Role:
    """What it asks for, whatever it is called."""
    return replace(role, name="", replicas=1)
