from gangs import carry_out, demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import StartCertainty


def eta(*gangs, machines=4, now=0, queues=()):
    """ETA of gang j-9; None if it is no bound."""
    return bound(schedule(ledger_of(nodes(machines), *gangs, queues=queues).snapshot(), now).verdicts["j-9"])


def bound(verdict):
    return verdict.eta if verdict.certainty is StartCertainty.BOUND else None


def test_the_bound_is_the_end_that_frees_enough():
    runs = [running(number, {f"n{number}": 8}, ends_by=100 * number) for number in (1, 2, 3, 4)]
    assert eta(*runs, waiting(9, demand(3, 8))) == 300
    assert eta(*runs, waiting(9, demand(1, 1))) == 100


def test_no_eta_depends_on_the_end_of_a_gang_without_a_walltime():
    runs = [running(1, {"n1": 8}, ends_by=100), running(2, {"n2": 8})]
    assert eta(*runs, waiting(9, demand(2, 8)), machines=2) is None
    assert eta(*runs, waiting(9, demand(1, 8)), machines=2) == 100


def test_a_gang_past_its_walltime_is_about_to_end():
    assert eta(running(1, {"n1": 8}, ends_by=100), waiting(9, demand(4, 8)), now=700) == 700


def test_gangs_that_start_in_the_same_plan_end_too():
    assert eta(waiting(1, demand(1, 8), walltime=250), waiting(9, demand(4, 8)), now=1000) == 1250


def test_only_the_first_gang_for_its_nodes_has_a_bound():
    full = [running(1, {"n1": 8}, ends_by=100), running(2, {"n2": 8}, ends_by=200)]
    assert eta(*full, waiting(3, demand(2, 8)), waiting(9, demand(1, 8)), machines=2) is None


def test_a_gang_that_shares_some_nodes_with_one_ahead_has_a_bound_on_the_others():
    machines = [*nodes(1, zone="a"), *nodes(2)[1:]]
    runs = [running(1, {"n1": 8}, ends_by=100), running(2, {"n2": 8}, ends_by=200)]
    gangs = [waiting(3, demand(1, 8, zone="a")), waiting(9, demand(1, 8)), waiting(10, demand(2, 8))]
    plan = schedule(ledger_of(machines, *runs, *gangs).snapshot(), 0)
    assert [bound(plan.verdicts[gang.id]) for gang in gangs] == [100, 200, None]


def test_a_gang_behind_one_that_waits_for_quota_has_no_bound():
    runs = [running(1, {"n1": 8, "n2": 8}, ends_by=100), running(3, {"n3": 8}, queue="small", ends_by=200)]
    ahead = waiting(2, demand(1, 8), queue="small")
    small = [Queue("small", {"gpu": 8})]
    assert eta(*runs, waiting(9, demand(3, 8)), machines=3, queues=small) == 200
    assert eta(*runs, ahead, waiting(9, demand(3, 8)), machines=3, queues=small) is None


def test_the_bound_is_found_among_hundreds_of_ends():
    runs = [running(number, {f"n{number}": 8}, ends_by=10 * number) for number in range(1, 301)]
    for replicas in (1, 8, 9, 25, 299, 300):
        assert eta(*runs, waiting(9, demand(replicas, 8)), machines=300) == 10 * replicas


def test_the_gang_starts_at_its_bound():
    ledger = ledger_of(
        nodes(3),
        *(running(number, {f"n{number}": 8}, ends_by=100 * number) for number in (1, 2, 3)),
        waiting(9, demand(2, 8)),
    )
    when = carry_out(ledger).verdicts["j-9"].eta
    for ends_by, job_id in ledger.snapshot().walltime_ends:
        if ends_by <= when:
            ledger.release(job_id)
    carry_out(ledger, when)
    assert "j-9" in ledger.snapshot().running
