"""Restart of single members (`RestartScope.MEMBER`): the others of the generation go on meanwhile.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/common/{job,pod}.go. Not taken over: the backoff limit there
counts only restarts by kubelets; here it counts those of members as well.
"""

from __future__ import annotations

from windlass.core.lifecycle.commands import RestartMember
from windlass.core.lifecycle.events import ContainersRestarted, Exit, MemberStarted
from windlass.core.lifecycle.failure import BACKOFF_LIMIT, count_failure, make_failure
from windlass.core.lifecycle.generations import Outcome, change_status, stop_generation
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.job import MemberRestart, Role
from windlass.core.model.status import Failure, JobState, Target
from windlass.wire import FIRST_SIGNAL_CODE

_LIMIT_REACHED = "it has reached the specified backoff limit"


def restart_or_fail(state: JobState, member: int, exit: Exit, failure: Failure, now: int, *, fatal: bool) -> Outcome:
    """After the failure of one member: restarts it, ends the job, or goes on without it.

    `fatal`: the class of the failure ends the job. A restart that is under way is not decided again. A backoff limit of
    0 is reached with the first failure, even of a member that would not be restarted.
    """
    status, policy = state.status, state.job.restart
    if status.restarting_members >> member & 1:
        return state, ()
    if policy.member_limit == 0 and _is_counted(exit) and not fatal:
        reached = f"{failure.message}, and {_LIMIT_REACHED}" if failure.message else _LIMIT_REACHED
        return _fail(state, make_failure(BACKOFF_LIMIT, reached, now), now)
    role = _role_of(state, member)
    restartable = _may_restart(role.restart, exit)
    if fatal or not (restartable or role.optional):
        return _fail(state, failure, now)
    if not restartable:
        return state, ()
    restarts = status.member_restarts + _is_counted(exit)
    limit = policy.member_limit
    if _is_counted(exit) and limit is not None and status.container_restarts + restarts > limit:
        return _fail(state, make_failure(BACKOFF_LIMIT, _LIMIT_REACHED, now), now)
    bits = status.restarting_members | 1 << member
    after = change_status(state, last_failure=failure, member_restarts=restarts, restarting_members=bits)
    return after, (RestartMember(state.id, status.generation, member),)


def on_member_started(state: JobState, event: MemberStarted, _now: int) -> Outcome:
    """A member runs again, or for the first time: its next end is a new one."""
    others = ~(1 << event.member)
    status = state.status
    return change_status(
        state, restarting_members=status.restarting_members & others, added_members=status.added_members & others
    ), ()


def on_containers_restarted(state: JobState, event: ContainersRestarted, now: int) -> Outcome:
    """Kubelets have restarted containers in place; these restarts count towards a backoff limit, if the job has one."""
    after = change_status(state, container_restarts=event.count)
    limit = state.job.restart.member_limit
    if state.status.target is not None or limit is None or event.count < max(limit, 1):
        return after, ()
    return _fail(after, make_failure(BACKOFF_LIMIT, _LIMIT_REACHED, now), now)


def restarts_under_way(state: JobState) -> tuple[RestartMember, ...]:
    """Commands for the restarts that are decided and not yet observed."""
    bits, generation = state.status.restarting_members, state.status.generation
    return tuple(
        RestartMember(state.id, generation, member) for member in range(bits.bit_length()) if bits >> member & 1
    )


def _role_of(state: JobState, member: int) -> Role:
    for role in job_in_size(state.job, state.status.placement).roles:
        if member < role.replicas:
            return role
        member -= role.replicas
    raise IndexError(f"{state.id} has no member {member}")


def _may_restart(rule: MemberRestart, exit: Exit) -> bool:
    match rule:
        case MemberRestart.ON_FAILURE:
            return True
        case MemberRestart.ON_EXIT_CODE:
            return exit.code is None or exit.code >= FIRST_SIGNAL_CODE
        case MemberRestart.ON_LOSS:
            return not _is_counted(exit)
    return False


def _is_counted(exit: Exit) -> bool:
    """Whether the member failed; one that was only deleted from outside did not."""
    return not exit.lost or exit.end_class is not None


def _fail(state: JobState, failure: Failure, now: int) -> Outcome:
    counted = change_status(state, last_failure=failure, **count_failure(state.status, failure, state.job.restart))
    return stop_generation(counted, Target.FAIL, failure.reason, failure.message, now)
