"""Failed attempts are diagnosed beside the controller: once each, a few at a time, and without effect on its loop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from windlass.backends.port import Changes, JobEvent
from windlass.core.lifecycle.events import Diagnosed
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job, RestartPolicy, Role, VerdictUse
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Status
from windlass.server.diagnosis.failure_diagnosis import FailureDiagnosis

FAILURE = Failure(FailureClass.USER, "ExitCode", "rank 0 exited with code 1", 5)


def failed(name: str, generation: int = 1) -> JobState:
    status = Status(phase=Phase.FAILED, reason="ExitCode", failed_generation=generation, last_failure=FAILURE)
    return JobState(f"{name}-1", 1, Job(name, (Role(),)), status)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(
    diagnose: Callable[[JobState], Awaitable[DiagnosedCause]], *turns: tuple[JobState, ...], at_once: int = 2
) -> list[JobEvent]:
    told: list[JobEvent] = []

    async def main() -> None:
        observer = FailureDiagnosis(diagnose, told.append, at_once)
        for states in turns:
            observer.on_commit_end(Changes(states=states))
        await settle()
        await observer.close()

    asyncio.run(main())
    return told


async def found(state: JobState) -> DiagnosedCause:
    return DiagnosedCause(state.status.failed_generation, "cause", "rule")


def test_each_failed_attempt_gets_one_verdict() -> None:
    told = run(found, (failed("a"),), (failed("a"), failed("b")), (failed("a", generation=2),))
    assert [(event.job_id, event.event) for event in told] == [
        ("a-1", Diagnosed(DiagnosedCause(1, "cause", "rule"))),
        ("b-1", Diagnosed(DiagnosedCause(1, "cause", "rule"))),
        ("a-1", Diagnosed(DiagnosedCause(2, "cause", "rule"))),
    ]


def test_states_without_a_failure_or_with_a_verdict_are_left_alone() -> None:
    cancelled = replace(failed("a"), status=replace(failed("a").status, reason="Cancelled", failed_generation=0))
    known = replace(failed("b"), status=replace(failed("b").status, diagnosis=DiagnosedCause(1, "cause")))
    assert run(found, (cancelled, known)) == []


def test_a_diagnosis_that_raises_is_told_as_such() -> None:
    async def broken(_state: JobState) -> DiagnosedCause:
        raise ValueError("the log is on fire")

    (told,) = run(broken, (failed("a"),))
    assert told.event == Diagnosed(DiagnosedCause(1, "not diagnosed: the log is on fire"))


def test_only_a_few_run_at_once() -> None:
    running, most = 0, 0

    async def slow(state: JobState) -> DiagnosedCause:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await found(state)

    told = run(slow, tuple(failed(f"job{number}") for number in range(9)), at_once=3)
    assert (len(told), most) == (9, 3)


def test_an_attempt_whose_restart_waits_is_diagnosed_before_others() -> None:
    waits = failed("waits")
    waits = replace(waits, job=replace(waits.job, restart=RestartPolicy(verdict=VerdictUse.ACT)))
    told = run(found, (failed("a"), failed("b"), waits), at_once=1)
    assert [event.job_id for event in told] == ["waits-1", "a-1", "b-1"]


def test_the_end_of_the_controller_ends_what_is_under_way_without_a_verdict() -> None:
    async def endless(_state: JobState) -> DiagnosedCause:
        await asyncio.Event().wait()
        raise AssertionError

    assert run(endless, (failed("a"),), (failed("b"), failed("c"))) == []
