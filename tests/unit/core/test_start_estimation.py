from dataclasses import replace

from gangs import demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.cycle.start_estimation import EDGES
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import StartCertainty

HOUR = 3_600_000


def estimates(*gangs, machines=1, queues=(), now=0, at=None):
    """(expected hour, certainty) of each waiting gang, by number; the grid is coarse, so hours are rounded."""
    ledger = ledger_of(at or nodes(machines), *gangs, queues=queues)
    ledger.set_cluster(at or nodes(machines), queues, None, Policy("fifo"))
    verdicts = schedule(ledger.snapshot(), now).verdicts
    return {
        int(job_id[2:]): (None if v.eta is None else round((v.eta - now) / HOUR), str(v.certainty))
        for job_id, v in verdicts.items()
    }


def whole(number, hours, **more):
    return waiting(number, demand(1, 8), walltime=hours * HOUR, **more)


FULL = running(1, {"n1": 8}, ends_by=10 * HOUR)


def test_the_grid_reaches_a_year_ahead_in_steps_of_a_twentieth():
    assert EDGES[0] == 0
    assert EDGES[-1] > 365 * 24 * HOUR
    assert (EDGES[2:] <= EDGES[1:-1] * 1.06).all()


def test_the_first_gang_has_a_bound_and_later_ones_an_expectation():
    gangs = [whole(number, 20) for number in (2, 3, 4)]
    found = estimates(FULL, *gangs)
    assert found[2] == (10, StartCertainty.BOUND)
    assert [found[number][1] for number in (3, 4)] == [StartCertainty.EXPECTED] * 2
    assert 30 <= found[3][0] <= 33
    assert found[3][0] + 20 <= found[4][0] <= 57


def test_a_gap_that_is_long_enough_is_expected():
    runs = [running(1, {"n1": 8}, ends_by=100 * HOUR), running(2, {"n2": 8}, ends_by=2 * HOUR)]
    both, short = waiting(3, demand(2, 8), walltime=HOUR), whole(4, 50)
    found = estimates(*runs, both, short, machines=2)
    assert found[3][0] == 100
    assert 2 <= found[4][0] <= 3


def test_no_start_is_expected_that_takes_the_end_of_a_gang_without_a_walltime():
    assert estimates(running(1, {"n1": 8}), whole(2, 1)) == {2: (None, StartCertainty.UNKNOWN)}
    assert estimates(FULL, waiting(2, demand(1, 8)), whole(3, 1))[3] == (None, StartCertainty.UNKNOWN)


def test_a_start_that_depends_on_more_than_time_is_unknown():
    found = estimates(FULL, whole(2, 1, waits_for=("x",)), whole(3, 1, queue="gone"), waiting(4, demand(9, 8)))
    assert {sure for _, sure in found.values()} == {StartCertainty.UNKNOWN}


def test_a_gang_beyond_its_users_maximum_has_no_expected_start():
    ours = [Queue("ours", user_limits={"gpu": 4})]
    assert estimates(FULL, whole(2, 1, queue="ours", user="ada"), queues=ours) == {2: (None, StartCertainty.UNKNOWN)}


def test_kinds_of_nodes_are_estimated_separately():
    machines = [*nodes(1, zone="a"), replace(nodes(2)[1], labels={"zone": "b"})]
    runs = [running(1, {"n1": 8}, ends_by=100 * HOUR), running(2, {"n2": 8}, ends_by=5 * HOUR)]
    in_a, in_b = waiting(3, demand(1, 8, zone="a"), walltime=HOUR), waiting(4, demand(1, 8, zone="b"), walltime=HOUR)
    found = estimates(*runs, in_a, in_b, at=machines)
    assert (found[3][0], found[4][0]) == (100, 5)


def test_releases_of_a_queue_return_to_that_queue():
    small = [Queue("small", {"gpu": 8})]
    runs = [running(1, {"n1": 8}, ends_by=30 * HOUR, queue="small"), running(2, {"n2": 8}, ends_by=HOUR)]
    found = estimates(*runs, whole(3, 1, queue="small"), machines=2, queues=small)
    assert found[3][1] == StartCertainty.EXPECTED
    assert 30 <= found[3][0] <= 32


def test_the_limit_of_an_array_and_a_backoff_delay_the_expected_start():
    members = [whole(number, 10, array_id="a", array_limit=1) for number in (1, 2)]
    assert 10 <= estimates(*members, machines=4)[2][0] <= 11
    assert 7 <= estimates(whole(1, 1, not_before=7 * HOUR))[1][0] <= 8


def test_a_gang_ahead_whose_begin_time_comes_first_leaves_no_bound():
    late = whole(2, 20, priority=1, begin=11 * HOUR)
    assert estimates(FULL, late, whole(3, 1))[3] == (10, StartCertainty.BOUND)
    early = whole(2, 20, priority=1, begin=5 * HOUR)
    assert estimates(FULL, early, whole(3, 1))[3][1] == StartCertainty.EXPECTED
    assert estimates(FULL, whole(2, 20, begin=5 * HOUR, since=5 * HOUR), whole(3, 1))[3][1] == StartCertainty.BOUND
