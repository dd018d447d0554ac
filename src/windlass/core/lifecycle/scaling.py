"""Scaling in place: members are added and removed while the others of the generation go on (`Role.scales_in_place`).

Fewer members follow from the request at once, more of them from a plan. A member that is added is started like one that
is restarted alone (`member_restarts`). If it cannot be started, it is removed again, and the job goes on without it.
Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/pod.go (ReconcilePods, GetPodSlices).
"""

from __future__ import annotations

from windlass.core.lifecycle.commands import Rescale
from windlass.core.lifecycle.events import MemberExited, SpecChanged
from windlass.core.lifecycle.generations import KEEPS_NODES, Outcome, change_status, stop_generation
from windlass.core.lifecycle.member_restarts import restarts_under_way
from windlass.core.lifecycle.success import has_succeeded
from windlass.core.model.elastic_size import cut_placement, is_longer, job_in_size
from windlass.core.model.gang import attained_service
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Phase, Placement, Status, Target

RETRY_MS = 10_000
"""Time, in ms, before members are added again after one of them could not be started."""


def on_spec_changed(state: JobState, _event: SpecChanged, now: int) -> Outcome:
    """Removes the members that the owner does not request any more; of a gang that starts, once it runs."""
    status = state.status
    if status.placement is None or not any(role.scales_in_place for role in state.job.roles):
        return state, ()
    fewer = _as_requested(state.job, status.placement)
    if status.target in KEEPS_NODES or (status.is_gone and status.target is None):
        return _start_as_requested(state), ()
    if fewer == status.placement or status.target is not None or status.phase is not Phase.RUNNING:
        return state, ()
    return rescale(state, fewer, now)


def grows_in_place(state: JobState, placement: Placement) -> bool:
    """Whether a larger placement adds members to the generation that runs."""
    before, running = state.status.placement, state.status.phase is Phase.RUNNING and state.status.target is None
    if before is None or not running or not is_longer(placement, before):
        return False
    in_place = {role.name for role in state.job.roles if role.scales_in_place}
    return all(role in in_place or names == before.nodes[role] for role, names in placement.nodes.items())


def rescale(state: JobState, placement: Placement, now: int) -> Outcome:
    """Goes on with the members of another placement; the job succeeds if those that are left have succeeded."""
    status = state.status
    before = status.placement
    assert before is not None  # noqa: S101 - the gang runs
    everyone = (1 << sum(len(names) for names in before.nodes.values())) - 1
    kept = _renumber(state.job, everyone, before, placement)
    added = ((1 << sum(len(names) for names in placement.nodes.values())) - 1) & ~kept
    succeeded = _renumber(state.job, status.succeeded_members, before, placement)
    after = change_status(
        state,
        placement=placement,
        service=attained_service(state, now),
        resized_at=now,
        succeeded_members=succeeded,
        restarting_members=_renumber(state.job, status.restarting_members, before, placement) | added,
        added_members=_renumber(state.job, status.added_members, before, placement) | added,
    )
    if succeeded and has_succeeded(job_in_size(state.job, placement), succeeded):
        return stop_generation(after, Target.SUCCEED, "Completing", "all members that are left succeeded", now)
    command = Rescale(state.id, status.generation, placement)
    return after, (command, *restarts_under_way(after))


def cannot_be_added(status: Status, event: MemberExited) -> bool:
    """Whether an end means that a member which was added could not be started: its node or its pod was refused."""
    is_added, exit = bool(status.added_members >> event.member & 1), event.exit
    return is_added and exit.lost and exit.end_class is not None and status.phase is Phase.RUNNING


def remove_unstarted(state: JobState, member: int, now: int) -> Outcome:
    """Removes a member that could not be added, with those after it in its role, and tries again later."""
    placement = state.status.placement
    assert placement is not None  # noqa: S101 - the gang runs
    for role in state.job.roles:
        size = len(placement.nodes.get(role.name, ()))
        if member < size:
            later = change_status(state, grow_after=now + RETRY_MS)
            return rescale(later, cut_placement(placement, {role.name: member}), now)
        member -= size
    return state, ()


def _as_requested(job: Job, placement: Placement) -> Placement:
    return cut_placement(placement, {role.name: role.replicas for role in job.roles if role.scales_in_place})


def _start_as_requested(state: JobState) -> JobState:
    """A gang that starts again on its nodes, with no more members than are requested."""
    status = state.status
    assert status.placement is not None  # noqa: S101 - a phase that holds nodes
    fewer = _as_requested(state.job, status.resize_to or status.placement)
    if fewer == (status.resize_to or status.placement):
        return state
    return change_status(state, **({"placement": fewer} if status.is_gone else {"resize_to": fewer}))


def _renumber(job: Job, members: int, before: Placement, after: Placement) -> int:
    """Returns a bit set of members, by the numbers of one placement, with those of another one. Others are left out."""
    found, old_first, new_first = 0, 0, 0
    for role in job.roles:
        old, new = len(before.nodes.get(role.name, ())), len(after.nodes.get(role.name, ()))
        found |= (members >> old_first & ((1 << min(old, new)) - 1)) << new_first
        old_first, new_first = old_first + old, new_first + new
    return found
