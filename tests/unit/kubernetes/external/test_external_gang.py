"""Events that follow from the pods of an external gang, and when."""

from external_pods import pod

from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, nodes_of, placement_of
from windlass.core.lifecycle.events import Cancel, Exit, GangGone, MemberExited, Started
from windlass.core.lifecycle.failure import REJECTED, STALE_PLACEMENT
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import Dialect

MEMBER = GangKey("team", "g", Dialect.COSCHEDULING)
JOB = Job("g", (Role("leader"), Role("worker", replicas=2)))


def rejected(detail):
    return Exit(lost=True, end_class=REJECTED, detail=detail)


def gang(allocation=None):
    pods = [pod(f"g-{number}") for number in range(3)]
    made = ExternalGang("team/podgroup/g", "g", 1, MEMBER, JOB, pods, allocation=allocation)
    made.observe_all()
    return made


def allocated(*, stopping=False, **given):
    allocation = Allocation(1, ["n1", "n2", "n2"], **given)
    if stopping:
        allocation.tracker.stopping = True
    return allocation


def placed(*phases, **given):
    nodes = ("n1", "n2", "n2")
    return [pod(f"g-{n}", node=nodes[n], phase=phase, **given) if phase else None for n, phase in enumerate(phases)]


def events(it, pods):
    for gathered, present in zip(it.pods, pods, strict=True):
        it.see(gathered.metadata.uid, present)
    return it.take_events()


def kinds(found):
    return [type(event) for event in found]


def test_nodes_are_those_of_the_members_in_their_order():
    placement = placement_of(JOB, ["n1", "n2", "n3"])
    assert placement.nodes == {"leader": ("n1",), "worker": ("n2", "n3")}
    assert nodes_of(JOB, placement) == ["n1", "n2", "n3"]


def test_a_waiting_gang_is_cancelled_once_one_of_its_pods_is_gone():
    waiting = gang()
    assert events(waiting, waiting.pods) == []
    changed = [waiting.pods[0], None, waiting.pods[2]]
    assert kinds(events(waiting, changed)) == [Cancel]
    assert events(waiting, changed) == []


def test_a_gang_starts_with_its_last_pod_and_ends_once_with_its_last_pod():
    running = gang(allocated(whole=True))
    assert events(running, placed("Running", "Running", "Pending")) == []
    assert events(running, placed("Running", "Running", "Running")) == [Started(1)]
    assert events(running, placed("Succeeded", "Succeeded", "Running")) == []
    ends = events(running, placed("Succeeded", "Succeeded", None))
    assert [(end.member, end.exit.ok) for end in ends] == [(0, True), (1, True), (2, True)]
    assert events(running, placed("Succeeded", "Succeeded", None)) == []


def test_a_gang_of_which_a_pod_has_failed_fails_and_is_not_queued_again():
    running = gang(allocated(whole=True))
    assert events(running, placed("Running", "Running", "Running")) == [Started(1)]
    assert events(running, placed("Succeeded", "Failed", "Running")) == []
    [failed] = events(running, [*placed("Succeeded", "Failed"), None])
    assert not failed.exit.ok
    assert failed.exit.end_class.fatal
    assert "g-1 on n2" in failed.exit.detail


def test_a_gang_whose_pods_were_deleted_before_they_ended_is_cancelled_once():
    running = gang(allocated(whole=True))
    assert events(running, placed("Running", "Running", "Running")) == [Started(1)]
    assert events(running, placed("Failed", "Failed", "Running", leaving=True)) == []
    assert events(running, [None, None, None]) == [Cancel("the deletion of its pods")]
    assert events(running, [None, None, None]) == []


def test_a_binding_that_failed_is_reported_once_no_other_is_under_way():
    failed = gang(allocated(bound={0}, failed={1: rejected("g-1: no")}, busy=1))
    assert events(failed, failed.pods) == []
    failed.allocation.busy = 0
    [lost] = events(failed, failed.pods)
    assert (type(lost), lost.member, lost.exit.lost, lost.exit.end_class) == (MemberExited, 1, True, REJECTED)


def test_a_gang_whose_nodes_changed_before_any_pod_was_bound_is_queued_again():
    stale = Exit(lost=True, end_class=STALE_PLACEMENT, detail="node n1 is gone")
    waiting = gang(allocated(failed={0: stale}, stale=True))
    [lost] = events(waiting, waiting.pods)
    assert (type(lost), lost.exit) == (MemberExited, stale)
    waiting.allocation.tracker.stopping = True
    assert kinds(events(waiting, waiting.pods)) == [GangGone]
    assert waiting.allocation is None
    assert not waiting.is_leaving


def test_a_stopped_gang_is_gone_with_its_last_pod_and_is_not_queued_again():
    leaving = gang(allocated(bound={0, 1, 2}, whole=True, stopping=True))
    assert GangGone not in kinds(events(leaving, placed("Running", "Succeeded", None)))
    assert kinds(events(leaving, placed("Failed", "Succeeded", None))) == [GangGone, Cancel]
    assert events(leaving, placed("Failed", "Succeeded", None)) == []


def test_pods_that_are_not_bound_or_on_other_nodes_do_not_delay_the_end():
    leaving = gang(allocated(bound={0}, failed={1: rejected("elsewhere")}, stopping=True))
    elsewhere = pod("g-1", node="n9", phase="Running")
    assert events(leaving, [leaving.pods[0], elsewhere, leaving.pods[2]]) == []  # the watch is behind: g-0 is bound
    assert kinds(events(leaving, [None, elsewhere, leaving.pods[2]])) == [GangGone, Cancel]


def test_a_gang_that_is_released_ends_while_its_pods_live():
    left = gang(allocated(whole=True, stopping=True, left_alone=True))
    assert kinds(events(left, placed("Running", "Running", None)))[-2:] == [GangGone, Cancel]


def test_a_late_pod_counts_in_the_place_of_the_member_that_it_replaces():
    running = gang(allocated(whole=True))
    assert events(running, placed("Running", "Running", "Running")) == [Started(1)]
    late = pod("late", node="n2", phase="Running")
    assert events(running, placed("Running", "Running", "Failed")) == []
    assert running.ended == {2}
    running.replace(2, late)
    assert (running.ended, running.number_of("uid-late")) == (set(), 2)
    assert events(running, [*placed("Succeeded", "Succeeded"), late]) == []
    ends = events(running, [*placed("Succeeded", "Succeeded"), None])
    assert [end.member for end in ends] == [0, 1, 2]
