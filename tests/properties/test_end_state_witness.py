"""The witness of the simulator's fault schedules finds states that differ from what the machines saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import campaign_results
import pytest
import soak
from simulated_witness import EndStateWitness

from windlass.backends.port import JobArrived
from windlass.core.model.status import JobState, Phase, Status

SEED = 3


@pytest.fixture(scope="module")
def judged() -> EndStateWitness:
    """A witness at the end of a schedule without violations."""
    witnesses: list[EndStateWitness] = []

    class Kept(EndStateWitness):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            witnesses.append(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(soak, "EndStateWitness", Kept)
        assert soak.soak(SEED).contract_violations == ()
    (witness,) = witnesses
    assert list(witness.end_violations()) == []
    return witness


def one_of(witness: EndStateWitness, wanted: Callable[[Status], bool]) -> JobState:
    return next(state for state in witness._universe.states.values() if wanted(state.status))


@pytest.mark.parametrize("reason", ["ExitCode", "Signal", "Cancelled", "WalltimeExceeded", "DependencyFailed", "Odd"])
def test_a_success_that_is_recorded_as_a_failure_is_found(
    judged: EndStateWitness, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    state = one_of(judged, lambda status: status.phase is Phase.SUCCEEDED)
    state = replace(state, job=replace(state.job, after=()))
    wrong = replace(state, status=replace(state.status, phase=Phase.FAILED, reason=reason))
    monkeypatch.setitem(judged._universe.states, state.id, wrong)
    monkeypatch.setitem(judged._submitted, state.id, replace(state.job, walltime=None))  # type: ignore[arg-type]
    monkeypatch.setattr(judged, "_requests", set())
    assert list(judged.end_violations()) == [f"{state.id} ended as Failed, {reason}: no machine saw that"]


def test_a_failure_that_is_recorded_as_a_success_is_found(
    judged: EndStateWitness, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = one_of(judged, lambda status: status.reason == "Misconfigured")
    wrong = replace(state, status=replace(state.status, phase=Phase.SUCCEEDED, reason="Succeeded"))
    monkeypatch.setitem(judged._universe.states, state.id, wrong)
    assert list(judged.end_violations()) == [f"{state.id} ended as Succeeded, Succeeded: no machine saw that"]


def test_lost_unknown_and_unended_jobs_are_found(judged: EndStateWitness, monkeypatch: pytest.MonkeyPatch) -> None:
    states = judged._universe.states
    first, second = list(states)[:2]
    waiting = replace(states[second], status=Status(phase=Phase.QUEUED))
    monkeypatch.setitem(states, second, waiting)
    monkeypatch.setitem(states, "job-99", states[first])
    monkeypatch.delitem(states, first)
    found = list(judged.end_violations())
    assert {f"{first} is lost", "job-99 was never submitted", f"{second} never ends: Queued"} <= set(found)


def test_a_change_after_the_end_is_found(judged: EndStateWitness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "violations", [])
    state = one_of(judged, lambda status: status.phase is Phase.SUCCEEDED)
    judged.observe_commit([replace(state, status=replace(state.status, phase=Phase.RUNNING, reason="Running"))])
    (found,) = judged.violations
    assert found.startswith(f"{state.id} had ended as ")


def test_the_arrival_of_a_job_is_observed_once(judged: EndStateWitness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "_arrived", {})
    state = one_of(judged, lambda status: status.phase is Phase.SUCCEEDED)
    judged.observe_events([JobArrived(state.id, 1, state.job)] * 2)
    assert list(judged._arrived) == [state.id]


def test_results_of_parts_are_summed_once_by_seed() -> None:
    part = {"first": 0, "schedules": 1000, "faults": {"nodes dead": 7, "full disks": 9}, "violations": [3]}
    again = {**part, "first": 1000, "violations": []}
    assert list(campaign_results.table([part, part, again])) == [
        "| | number |",
        "|---|---|",
        "| schedules (seeds 0 to 1999) | 2,000 |",
        "| full disks | 18 |",
        "| nodes dead | 14 |",
        "| schedules with violations | 1 |",
    ]
