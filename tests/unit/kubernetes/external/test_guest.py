"""What the pods of a gang of others tell the controller, and when."""

from guest_pods import pod

from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, hear, nodes_of, placement_of
from windlass.core.lifecycle.events import Cancel, GangGone, MemberExited, Started
from windlass.core.lifecycle.failure import REJECTED
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.external.membership import Dialect, Membership

MEMBER = Membership("team", "g", Dialect.COSCHEDULING)
JOB = Job("g", (Role("leader"), Role("worker", replicas=2)))


def guest(stay=None):
    pods = [pod(f"g-{number}") for number in range(3)]
    return ExternalGang("team/podgroup/g", "g", 1, MEMBER, JOB, pods, stay=stay)


def stay(**given):
    return Allocation(1, ["n1", "n2", "n2"], **given)


def placed(*phases, **given):
    nodes = ("n1", "n2", "n2")
    return [pod(f"g-{n}", node=nodes[n], phase=phase, **given) if phase else None for n, phase in enumerate(phases)]


def kinds(events):
    return [type(event) for event in events]


def test_nodes_are_those_of_the_members_in_their_order():
    placement = placement_of(JOB, ["n1", "n2", "n3"])
    assert placement.nodes == {"leader": ("n1",), "worker": ("n2", "n3")}
    assert nodes_of(JOB, placement) == ["n1", "n2", "n3"]


def test_a_gang_that_waits_says_nothing_until_one_of_its_pods_is_another():
    waiting = guest()
    assert list(hear(waiting, waiting.pods)) == []
    changed = [waiting.pods[0], None, waiting.pods[2]]
    assert kinds(hear(waiting, changed)) == [Cancel]
    assert list(hear(waiting, changed)) == []


def test_it_has_started_when_all_of_it_has_and_ends_once_when_the_last_has():
    running = guest(stay(whole=True))
    assert list(hear(running, placed("Running", "Running", "Pending"))) == []
    assert list(hear(running, placed("Running", "Running", "Running"))) == [Started(1)]
    assert list(hear(running, placed("Succeeded", "Failed", "Running"))) == []
    ends = list(hear(running, placed("Succeeded", "Failed", None)))
    assert [(end.member, end.exit.ok) for end in ends] == [(0, True), (1, True), (2, True)]
    assert list(hear(running, placed("Succeeded", "Failed", None))) == []


def test_a_gang_of_which_one_could_not_be_bound_is_told_once_that_is_sure():
    failed = guest(stay(bound={0}, failed={1: "g-1: no"}, busy=1))
    assert list(hear(failed, failed.pods)) == []
    failed.stay.busy = 0
    [told] = hear(failed, failed.pods)
    assert (type(told), told.member, told.exit.lost, told.exit.end_class) == (MemberExited, 1, True, REJECTED)


def test_a_gang_that_is_stopped_is_gone_when_nobody_is_left_on_its_nodes_and_is_not_queued_again():
    leaving = guest(stay(bound={0, 1, 2}, whole=True, stopping=True))
    assert list(hear(leaving, placed("Running", "Succeeded", None))) == []
    assert kinds(hear(leaving, placed("Failed", "Succeeded", None))) == [GangGone, Cancel]
    assert list(hear(leaving, placed("Failed", "Succeeded", None))) == []


def test_pods_that_were_not_bound_or_by_somebody_else_do_not_hold_up_its_end():
    leaving = guest(stay(bound={0}, failed={1: "elsewhere"}, stopping=True))
    elsewhere = pod("g-1", node="n9", phase="Running")
    assert list(hear(leaving, [leaving.pods[0], elsewhere, leaving.pods[2]])) == []  # a watch is behind: g-0 is bound
    assert kinds(hear(leaving, [None, elsewhere, leaving.pods[2]])) == [GangGone, Cancel]


def test_pods_that_are_left_alone_live_on():
    left = guest(stay(whole=True, stopping=True, left_alone=True))
    assert kinds(hear(left, placed("Running", "Running", None)))[-2:] == [GangGone, Cancel]
