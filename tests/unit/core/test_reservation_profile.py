from dataclasses import replace

import numpy as np
from gangs import demand, ledger_of, node, nodes, running, waiting

from windlass.core.model.policy import Policy
from windlass.core.model.reservation import Reservation
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.placement.gang_placement import place
from windlass.core.reservations.release_forecast import NEVER, EarlyRelease
from windlass.core.reservations.reservation_profile import ReservationProfile


def profile_of(machines, *gangs, reservations=(), policy=None, now=0):
    """The profile of a plan that has given nothing away yet, and what is free in it."""
    snapshot = ledger_of(machines, *gangs).snapshot()
    snapshot = replace(snapshot, reservations=tuple(reservations), policy=policy or Policy())
    free = snapshot.free.copy(order="F")
    return ReservationProfile(snapshot, now, free), free


def gpus(profile, gang):
    """GPUs that the gang may use, node by node."""
    return profile.free_for(gang)[:, 0].tolist()


def grant_of_all(machines, run):
    """Grant of all that a running gang holds."""
    return ledger_of(machines, run).snapshot().grants[run.id]


def start(profile, free, gang, machines):
    """Starts the gang as the scheduler does, if there is room."""
    nodes_of = ledger_of(machines).snapshot().table
    found = place(profile.free_for(gang), nodes_of, gang.demands, None)
    if found:
        allocate_grant(nodes_of, free, found.grant)
        profile.add_start(gang, found.grant)
    return found is not None


HALF_FULL = [running(1, {"n1": 8}, ends_by=100), running(2, {"n2": 4}, ends_by=60)]
BIG = waiting(10, demand(2, 8), walltime=50)


def test_all_free_capacity_is_available_without_reservations():
    profile, free = profile_of(nodes(2), *HALF_FULL)
    assert profile.free_for(waiting(1, demand(1))) is free
    assert profile.next_shorter_walltime(waiting(1, demand(1))) is None


def test_a_gang_that_ends_in_time_may_use_nodes_that_are_reserved_later():
    profile, _ = profile_of(nodes(2), *HALF_FULL)
    profile.reserve(BIG)
    assert [reservation.start for reservation in profile.reservations()] == [100]
    assert gpus(profile, waiting(11, demand(1), walltime=100)) == [0, 4]
    assert gpus(profile, waiting(12, demand(1), walltime=101)) == [0, 0]
    assert profile.next_shorter_walltime(waiting(12, demand(1), walltime=101)) == 100
    assert profile.next_shorter_walltime(waiting(12, demand(1), walltime=100)) is None


def test_a_gang_without_a_walltime_crosses_no_reservation():
    profile, _ = profile_of(nodes(2), *HALF_FULL)
    profile.reserve(BIG)
    assert gpus(profile, waiting(11, demand(1))) == [0, 0]


def test_the_rest_beside_a_reservation_is_for_any_gang():
    profile, _ = profile_of(nodes(2), *HALF_FULL)
    profile.reserve(waiting(10, demand(1, 5), walltime=50))
    assert [reservation.start for reservation in profile.reservations()] == [60]
    assert gpus(profile, waiting(11, demand(1))) == [0, 3]


def test_a_started_gang_takes_from_the_rest_beside_a_reservation():
    machines = nodes(2)
    profile, free = profile_of(machines, *HALF_FULL)
    profile.reserve(waiting(10, demand(1, 5), walltime=50))
    assert start(profile, free, waiting(11, demand(2), walltime=500), machines)
    assert gpus(profile, waiting(12, demand(1))) == [0, 1]
    assert gpus(profile, waiting(12, demand(1), walltime=60)) == [0, 2]


def test_gangs_that_start_in_the_plan_end_too():
    machines = nodes(1)
    profile, free = profile_of(machines)
    assert start(profile, free, waiting(1, demand(1, 5), walltime=70), machines)
    profile.reserve(waiting(2, demand(1, 8), walltime=10))
    assert [reservation.start for reservation in profile.reservations()] == [70]


def test_the_longest_running_gangs_are_expected_to_end_if_no_end_is_known():
    runs = [replace(running(n, {f"n{n}": 7}), admitted_at=at) for n, at in ((1, 50), (2, 20), (3, 90))]
    profile, _ = profile_of(nodes(3), *runs)
    profile.reserve(waiting(10, demand(2, 8), walltime=50))
    assert [(reservation.start, reservation.grant.rows.tolist()) for reservation in profile.reservations()] == [
        (NEVER, [0, 1])
    ]
    assert gpus(profile, waiting(11, demand(1), walltime=1)) == [0, 0, 1]
    assert profile.next_shorter_walltime(waiting(11, demand(1), walltime=1)) is None


def test_the_policy_limits_the_reservations_on_the_same_nodes():
    machines = [node("a1", zone="a"), node("b1", zone="b")]
    in_a, in_b, on_both = (
        waiting(n, demand(count, 8, **where))
        for n, count, where in ((1, 1, {"zone": "a"}), (2, 1, {"zone": "b"}), (3, 2, {}))
    )
    one, _ = profile_of(machines, policy=Policy(reservations=1))
    assert one.contention.can_reserve(on_both)
    one.reserve(in_a)
    assert [one.contention.can_reserve(gang) for gang in (in_a, in_b, on_both)] == [False, True, False]
    every, _ = profile_of(machines, policy=Policy(reservations=-1))
    every.reserve(in_a)
    assert every.contention.can_reserve(in_a)


def test_a_gang_that_fits_beside_contended_nodes_reserves_the_others():
    machines = [node("a1", zone="a"), node("b1", zone="b"), node("b2", zone="b")]
    runs = [running(1, {"a1": 8}, ends_by=10), running(2, {"b1": 8}, ends_by=60)]
    profile, _ = profile_of(machines, *runs)
    profile.reserve(waiting(3, demand(1, 8, zone="a"), walltime=100))
    anywhere = waiting(4, demand(2, 8))
    assert profile.contention.can_reserve(anywhere)
    profile.reserve(anywhere)
    assert [(reservation.start, reservation.grant.rows.tolist()) for reservation in profile.reservations()] == [
        (10, [0]),
        (60, [1, 2]),
    ]
    assert not profile.contention.can_reserve(waiting(5, demand(1, 1, zone="b")))


def test_the_second_reservation_does_not_delay_the_first():
    profile, _ = profile_of(nodes(2), *HALF_FULL, policy=Policy(reservations=-1))
    profile.reserve(BIG)
    profile.reserve(waiting(11, demand(1, 6), walltime=40))
    profile.reserve(waiting(12, demand(1, 6), walltime=41))
    assert [(reservation.start, reservation.until) for reservation in profile.reservations()] == [
        (100, 150),
        (60, 100),
        (150, 191),
    ]


def test_a_later_reservation_sees_gangs_that_started_before_it():
    machines = nodes(2)
    profile, free = profile_of(machines, *HALF_FULL, policy=Policy(reservations=-1))
    profile.reserve(BIG)
    assert start(profile, free, waiting(11, demand(4), walltime=90), machines)
    profile.reserve(waiting(12, demand(1, 8), walltime=5))
    assert [reservation.start for reservation in profile.reservations()] == [100, 90]


def test_a_reserved_place_is_beside_gangs_that_start_before_it():
    machines = nodes(3)
    victim, ends_soon = running(1, {"n1": 8}), running(2, {"n3": 8}, ends_by=10)
    profile, _ = profile_of(machines, victim, ends_soon)
    profile.reserve(waiting(3, demand(2, 6)))
    asked = waiting(4, demand(5, 2))
    found = place(np.array([[8], [2], [0]]), ledger_of(machines).snapshot().table, asked.demands, None)
    profile.reserve_for_eviction(asked, 30, found.grant, [EarlyRelease(victim.id, 30, grant_of_all(machines, victim))])
    assert [reservation.start for reservation in profile.reservations()] == [10, 30]
    assert gpus(profile, waiting(5, demand(1, 2))) == [0, 0, 0], "n2 is full once both have started"
    assert gpus(profile, waiting(6, demand(1, 2), walltime=30)) == [0, 2, 0], "who is gone by then may use it"


def test_maintenance_excludes_gangs_that_would_still_run():
    window = Reservation("fans", ("n1",), start=1_000, end=2_000, reason="new fans")
    profile, _ = profile_of(nodes(2), reservations=[window])
    assert gpus(profile, waiting(1, demand(1), walltime=1_000)) == [8, 8]
    assert gpus(profile, waiting(1, demand(1), walltime=1_001)) == [0, 8]
    assert profile.next_shorter_walltime(waiting(1, demand(1))) == 1_000


def test_nodes_reserved_for_a_queue_or_user_admit_them_before_and_during():
    claim = Reservation("demo", ("n1",), start=0, end=2_000, queues=("vision",), users=("ada",))
    profile, _ = profile_of(nodes(2), reservations=[claim], now=500)
    assert gpus(profile, waiting(1, demand(1), walltime=10)) == [0, 8]
    assert gpus(profile, waiting(1, demand(1), queue="vision")) == [8, 8]
    assert gpus(profile, waiting(1, demand(1), user="ada")) == [8, 8]


def test_a_reservation_begins_after_maintenance():
    window = Reservation("fans", ("n1",), start=50, end=2_000)
    profile, _ = profile_of(nodes(2), *HALF_FULL, reservations=[window])
    profile.reserve(BIG)
    assert [reservation.start for reservation in profile.reservations()] == [2_000]


def test_the_first_gang_reserves_what_a_shrinking_gang_releases():
    """Of its 4 GPUs it keeps one from 20 on; the rest it releases at its end."""
    machines, left = nodes(2, gpu=4), Placement({"worker": ("n1",)})
    shrinking = replace(running(1, {"n1": 4}, ends_by=1_000, grace=30), resize_to=left, resized_at=-10)
    others = running(2, {"n2": 1}), running(5, {"n2": 2}, ends_by=600)
    profile, _ = profile_of(machines, shrinking, *others)
    profile.reserve(waiting(3, demand(2, 3), walltime=100))
    assert [reservation.start for reservation in profile.reservations()] == [600]
    profile, _ = profile_of(machines, shrinking, *others)
    profile.reserve(waiting(3, demand(1, 3), walltime=100))
    assert [reservation.start for reservation in profile.reservations()] == [20]
    profile, _ = profile_of(machines, shrinking, *others)
    profile.reserve(waiting(3, demand(1, 4), walltime=100))
    assert [reservation.start for reservation in profile.reservations()] == [1_000]


def test_the_next_gang_reserves_what_victims_of_the_first_leave_over():
    """The gang needs 4 of the 8 GPUs that its victim releases."""
    machines, victim = nodes(1), running(1, {"n1": 8}, ends_by=1_000)
    profile, _ = profile_of(machines, victim, policy=Policy(reservations=2))
    asked = waiting(3, demand(1, 4))
    found = place(np.array([[8]]), ledger_of(machines).snapshot().table, asked.demands, None)
    profile.reserve_for_eviction(asked, 30, found.grant, [EarlyRelease(victim.id, 30, grant_of_all(machines, victim))])
    profile.reserve(waiting(4, demand(1, 2)))
    assert [reservation.start for reservation in profile.reservations()] == [30, 30]
