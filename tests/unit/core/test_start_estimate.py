from gangs import demand, ledger_of, nodes, running, waiting

from windlass.core.explain.start_estimate import expected_start, expected_starts


def expected(number, *gangs, machines=2, now=0):
    """Expected start of gang j-<number>."""
    snapshot = ledger_of(nodes(machines), *gangs).snapshot()
    gang = next(gang for gang in snapshot.pending if gang.number == number)
    return expected_start(snapshot, gang, now)


def test_gangs_ahead_run_first():
    whole = {"walltime": 100}
    gangs = [
        running(1, {"n1": 8, "n2": 8}, ends_by=40),
        *(waiting(number, demand(2, 8), **whole) for number in (2, 3, 4)),
    ]
    assert [expected(number, *gangs) for number in (2, 3, 4)] == [40, 140, 240]


def test_all_starts_are_in_order_of_time_with_their_nodes():
    gangs = [running(1, {"n1": 8, "n2": 8}, ends_by=40), *(waiting(n, demand(2, 8), walltime=100) for n in (2, 3, 4))]
    snapshot = ledger_of(nodes(2), *gangs).snapshot()
    starts = expected_starts(snapshot, 0, most=2)
    assert [(start.job_id, start.at) for start in starts] == [("j-2", 40), ("j-3", 140)]
    assert starts[0].placement.distinct() == ("n1", "n2")


def test_no_start_is_expected_behind_a_gang_without_a_walltime():
    assert expected(3, waiting(2, demand(2, 8)), waiting(3, demand(1, 8))) is None
    assert expected(3, waiting(2, demand(1, 8)), waiting(3, demand(1, 8))) == 0


def test_the_end_of_a_backoff_is_expected():
    assert expected(1, waiting(1, demand(1), not_before=70)) == 70
    late = waiting(1, demand(2, 8), not_before=70)
    assert expected(1, late, waiting(2, demand(1, 8), walltime=100)) == 100


def test_the_start_of_a_gang_that_waits_for_a_job_is_unknown():
    assert expected(1, waiting(1, demand(1), waits_for=("x",))) is None


def test_an_array_runs_within_its_limit():
    members = [waiting(number, demand(1), array_id="a", array_limit=1, walltime=10) for number in (1, 2, 3)]
    assert [expected(number, *members) for number in (1, 2, 3)] == [0, 10, 20]


def test_a_start_that_is_too_far_off_is_unknown():
    line = [waiting(number, demand(number % 2 + 1, 8, gpu_kind="x"), walltime=1) for number in range(300)]
    assert expected(9_999, *line, *many_shapes(), waiting(9_999, demand(1, 8))) is None


def many_shapes():
    """Gangs of enough distinct shapes to exceed the limit of the lookahead."""
    return [
        waiting(1_000 + size, demand(2, 8), walltime=1_000 + size, priority=1, waits_for=(f"x-{size}",))
        for size in range(9_000)
    ] + [waiting(500 + turn, demand(2, 8), walltime=10) for turn in range(40)]
