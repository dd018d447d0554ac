from gangs import demand, ledger_of, nodes, running, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.model.reasons import Gate, Reason, StartCertainty


def verdict_at(now, *gangs):
    return schedule(ledger_of(nodes(2), *gangs).snapshot(), now).verdicts.get("j-1")


def test_a_backoff_gates_a_gang_until_its_end():
    gang = waiting(1, demand(1), not_before=100)
    assert verdict_at(99, gang).reason is Reason.ON_HOLD
    assert verdict_at(100, gang) is None


def test_a_gang_whose_state_cannot_be_written_is_on_hold():
    verdict = verdict_at(0, waiting(1, demand(1), hold="its state cannot be written at present"), waiting(2, demand(1)))
    assert verdict.reason is Reason.ON_HOLD
    assert "cannot be written" in verdict.message


def test_a_job_that_waits_for_others_names_them():
    gang = waiting(1, demand(1), waits_for=("a-1", "b-2", "c-3", "d-4"))
    verdict = verdict_at(0, gang)
    assert verdict.reason is Reason.ADMISSION_GATED
    assert verdict.message == "waits for a-1, b-2, c-3 and 1 more to end"


def test_an_array_limit_counts_members_that_run_and_members_that_start_in_this_plan():
    array = {"array_id": "a", "array_limit": 3}
    members = [waiting(number, demand(1), **array) for number in (1, 2, 3)]
    ledger = ledger_of(nodes(2), running(9, {"n1": 1}, array_id="a"), *members)
    plan = schedule(ledger.snapshot(), 0)
    assert [admission.job_id for admission in plan.admissions] == ["j-1", "j-2"]
    assert plan.verdicts["j-3"].reason is Reason.ADMISSION_GATED
    assert plan.verdicts["j-3"].message == "3 of its array hold nodes, its limit is 3"


def test_a_gated_gang_has_no_position_and_blocks_no_gang():
    ledger = ledger_of(
        nodes(1), waiting(1, demand(1, 8), waits_for=("x",)), waiting(2, demand(1, 8)), waiting(3, demand(1, 8))
    )
    plan = schedule(ledger.snapshot(), 0)
    assert [admission.job_id for admission in plan.admissions] == ["j-2"]
    assert list(plan.order) == ["j-3"]
    assert list(plan.verdicts) == ["j-1", "j-3"]


def test_a_begin_time_gates_a_gang_until_then_and_the_plan_is_due_at_it():
    eight = 1_795_852_800_000
    plan = schedule(ledger_of(nodes(2), waiting(1, demand(1), begin=eight)).snapshot(), eight - 1)
    verdict = plan.verdicts["j-1"]
    assert (verdict.reason, verdict.gate) == (Reason.ADMISSION_GATED, Gate.BEGIN_TIME)
    assert verdict.message == "waits for its begin time 2026-11-28 08:00 UTC"
    assert (verdict.eta, verdict.certainty) == (eight, StartCertainty.EARLIEST)
    assert plan.due == eight
    assert verdict_at(eight, waiting(1, demand(1), begin=eight)) is None


def test_a_begin_time_that_has_passed_gates_no_gang_and_makes_no_plan_due():
    plan = schedule(ledger_of(nodes(1), waiting(1, demand(1), begin=100)).snapshot(), 200)
    assert [admission.job_id for admission in plan.admissions] == ["j-1"]
    assert plan.due is None


def test_a_job_that_waits_for_others_as_well_names_them_before_its_begin_time():
    verdict = verdict_at(0, waiting(1, demand(1), begin=100, waits_for=("a-1",)))
    assert (verdict.gate, verdict.eta) == (Gate.DEPENDENCY, None)


def test_nodes_that_are_full_at_the_begin_time_put_off_its_expected_start():
    full = running(9, {"n1": 8}, ends_by=7_200_000)
    verdict = verdict_at(0, *[waiting(1, demand(1), begin=3_600_000, walltime=60_000)])
    assert verdict.eta == 3_600_000
    late = schedule(ledger_of(nodes(1), full, waiting(1, demand(1), begin=3_600_000)).snapshot(), 0).verdicts["j-1"]
    assert late.gate is Gate.BEGIN_TIME
    assert late.eta > 7_000_000
    assert late.certainty is StartCertainty.EXPECTED


def test_the_text_of_a_begin_time_beyond_all_calendars_is_its_last_day():
    assert verdict_at(0, waiting(1, demand(1), begin=2**60)).message.endswith("9999-12-31 23:59:59 UTC")
