from dataclasses import replace

import msgspec

from windlass.backends.local.launched_gang import (
    AgentRecord,
    LaunchedGang,
    new_gang,
    remembered_gang,
    tasks_of,
    unknown_gang,
)
from windlass.backends.local.state_reader import Task
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Recovered, Started
from windlass.core.model.job import Job, Launcher, Role
from windlass.core.model.status import Placement

JOB = Job("job", (Role("worker", replicas=2, procs=2, command=("train",)),), workdir="/")
KEY = ("job-1", 3)


def gang() -> LaunchedGang:
    return new_gang(KEY, JOB, Placement({"worker": ("n1", "n2")}))


def end_rank(gang: LaunchedGang, number: int, report: dict[str, int]) -> tuple[list[JobEvent], str]:
    """Returns the events that the end of a rank causes, and its description."""
    detail = gang.end_rank(number, report)
    return gang.take_events(), detail


def receive(gang: LaunchedGang, member: int, message: dict[str, object]) -> list[JobEvent]:
    """Returns the events that a message of an agent causes."""
    gang.receive_agent_message(member, message)
    return gang.take_events()


def start(gang: LaunchedGang) -> list[JobEvent]:
    """Returns the events that the start of all ranks causes."""
    gang.start()
    return gang.take_events()


def vanish(gang: LaunchedGang) -> list[JobEvent]:
    """Returns the events that the end of the last process causes."""
    gang.members.vanish()
    return gang.take_events()


def exited(member: int, exit: Exit) -> JobEvent:
    return JobEvent("job-1", MemberExited(3, member, exit))


def test_a_member_succeeds_when_all_its_ranks_have_succeeded():
    of_two = gang()
    assert start(of_two) == [JobEvent("job-1", Started(3))]
    assert end_rank(of_two, 0, {"code": 0})[0] == []
    events, detail = end_rank(of_two, 1, {"code": 0})
    assert detail == "rank 1 (worker/0) on n1 exited with code 0"
    assert events == [exited(0, Exit(code=0, detail=detail))]


def test_a_member_fails_at_its_first_failing_rank_and_reports_that_once():
    of_two = gang()
    events, detail = end_rank(of_two, 3, {"signal": 9})
    assert detail == "rank 3 (worker/1) on n2 killed by SIGKILL"
    assert events == [exited(1, Exit(signal=9, detail=detail))]
    assert end_rank(of_two, 2, {"code": 1}) == ([], "rank 2 (worker/1) on n2 exited with code 1")


def test_the_start_and_the_end_of_a_gang_are_reported_once():
    of_two = gang()
    assert start(of_two) == [JobEvent("job-1", Started(3))]
    assert start(of_two) == []
    assert vanish(of_two) == [JobEvent("job-1", GangGone(3))]
    assert vanish(of_two) == []


def test_a_gang_that_is_gone_holds_no_devices():
    of_two = gang()
    of_two.devices = {("worker", 0): ("a", "b"), ("worker", 1): ("c",)}
    assert list(of_two.held_devices()) == ["a", "b", "c"]
    vanish(of_two)
    assert list(of_two.held_devices()) == []


def test_a_gang_that_cannot_be_launched_ends_with_the_reason():
    of_two = gang()
    of_two.launch_error = "n1 has no free device"
    of_two.give_up(Exit(lost=True, detail="n1 has no free device"))
    assert of_two.take_events() == [exited(0, Exit(lost=True, detail="n1 has no free device"))]


def test_a_new_controller_restores_a_gang_from_its_stored_tasks():
    stored = gang()
    stored.devices = {("worker", 0): ("a",), ("worker", 1): ("b",)}
    rows = tasks_of(stored)
    assert rows[3] == Task("job-1", 3, 3, "worker", 1, "n2", ("b",))
    seen = [Task(*KEY, 0, "worker", 0, "n1", ("a",), 100, 7, code=0), Task(*KEY, 1, "worker", 0, "n1", ("a",), 101, 7)]
    restored = remembered_gang(KEY, JOB, [*seen, *rows[2:]])
    assert restored.devices == stored.devices
    assert restored.nodes == stored.nodes
    assert restored.members.started
    events, detail = end_rank(restored, 1, {"code": 0})
    assert events == [exited(0, Exit(code=0, detail=detail))]
    assert start(restored) == []


def test_an_unknown_gang_reports_only_its_end():
    unknown = unknown_gang(KEY)
    assert end_rank(unknown, 0, {"code": 1}) == ([], "")
    assert vanish(unknown) == [JobEvent("job-1", GangGone(3))]


def failed(rank: int, code: int) -> dict[str, object]:
    return {"type": "failure", "generation": 1, "kind": "failed", "rank": rank, "code": code, "reason": "x"}


def agent_gang() -> LaunchedGang:
    return new_gang(KEY, replace(JOB, launcher=Launcher.AGENT), Placement({"worker": ("n1", "n2")}))


def test_a_recovery_is_reported_after_the_last_agent_with_the_time_of_the_slowest():
    gang = agent_gang()
    assert receive(gang, 1, failed(3, -9)) == []
    assert receive(gang, 0, failed(0, 1)) == [], "it has lost its peer"
    recovery = {"type": "recovery", "generation": 2, "reason": "x"}
    assert receive(gang, 0, {**recovery, "seconds": 0.25}) == []
    killed = Exit(signal=9, detail="rank 3 (worker/1) on n2 killed by SIGKILL")
    assert receive(gang, 1, {**recovery, "seconds": 1.5}) == [JobEvent("job-1", Recovered(3, 2, killed, 1500))]


def test_a_recovery_that_is_interrupted_by_the_next_failure_counts():
    gang = agent_gang()
    receive(gang, 0, {"type": "recovery", "generation": 2, "seconds": 0.5, "reason": "the store has ended"})
    lost = Exit(signal=9, detail="the store has ended")
    events = receive(gang, 1, {"type": "recovery", "generation": 3, "seconds": 0.5, "reason": "x"})
    assert events == [JobEvent("job-1", Recovered(3, 2, lost, 500))]


def test_a_failure_that_agents_could_not_recover_is_reported_with_its_first_cause():
    gang = agent_gang()
    receive(gang, 1, failed(2, 7))
    events, detail = end_rank(gang, 0, {"code": 7})
    assert detail == "rank 2 (worker/1) on n2 exited with code 7"
    assert events == [exited(0, Exit(code=7, detail=detail))]
    gang = agent_gang()
    assert end_rank(gang, 1, {"signal": 9})[1] == "the agent (worker/1) on n2 killed by SIGKILL"


def test_a_new_controller_restores_the_failure_and_the_agents_that_recovered():
    stored = agent_gang()
    receive(stored, 1, failed(3, 7))
    receive(stored, 0, {"type": "recovery", "generation": 2, "seconds": 0.25, "reason": "x"})
    record = msgspec.json.decode(msgspec.json.encode(stored.agent_record), type=AgentRecord)
    restored = remembered_gang(KEY, stored.job, tasks_of(stored), record)
    events = receive(restored, 1, {"type": "recovery", "generation": 2, "seconds": 0.1, "reason": "x"})
    exit = Exit(code=7, detail="rank 3 (worker/1) on n2 exited with code 7")
    assert events == [JobEvent("job-1", Recovered(3, 2, exit, 250))]
    assert restored.agent_record == AgentRecord()


def test_a_recovery_counts_even_if_the_gang_ends_before_all_agents_report_it():
    gang = agent_gang()
    receive(gang, 1, failed(3, 7))
    receive(gang, 0, {"type": "recovery", "generation": 2, "seconds": 0.25, "reason": "x"})
    gang.finish_recovery()
    [event] = gang.take_events()
    assert isinstance(event.event, Recovered)
    gang.finish_recovery()
    assert gang.take_events() == []
