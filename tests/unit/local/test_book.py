from dataclasses import replace

import msgspec

from windlass.backends.local.launched_gangs import AgentRecord, LaunchedGang, new_gang, remembered_gang, tasks_of
from windlass.backends.local.state_reader import Task
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import Exit, GangGone, MemberExited, Recovered, Started
from windlass.core.model.job import Job, Launcher, Role
from windlass.core.model.status import Placement

JOB = Job("job", (Role("worker", replicas=2, procs=2, command=("train",)),), workdir="/")
KEY = ("job-1", 3)


def gang() -> LaunchedGang:
    return new_gang(KEY, JOB, Placement({"worker": ("n1", "n2")}))


def exited(member: int, exit: Exit) -> JobEvent:
    return JobEvent("job-1", MemberExited(3, member, exit))


def test_a_member_has_ended_well_when_all_its_ranks_have():
    of_two = gang()
    assert of_two.start() == [JobEvent("job-1", Started(3))]
    assert of_two.end_rank(0, {"code": 0})[0] == []
    events, words = of_two.end_rank(1, {"code": 0})
    assert words == "rank 1 (worker/0) on n1 exited with code 0"
    assert events == [exited(0, Exit(code=0, detail=words))]


def test_a_member_has_ended_at_its_first_failing_rank_and_only_then():
    of_two = gang()
    events, words = of_two.end_rank(3, {"signal": 9})
    assert words == "rank 3 (worker/1) on n2 killed by SIGKILL"
    assert events == [exited(1, Exit(signal=9, detail=words))]
    assert of_two.end_rank(2, {"code": 1}) == ([], "rank 2 (worker/1) on n2 exited with code 1")


def test_start_and_end_are_told_once():
    of_two = gang()
    assert of_two.start() == [JobEvent("job-1", Started(3))]
    assert of_two.start() == []
    assert of_two.vanish() == [JobEvent("job-1", GangGone(3))]
    assert of_two.vanish() == []


def test_a_gang_that_is_gone_holds_no_devices():
    of_two = gang()
    of_two.devices = {("worker", 0): ("a", "b"), ("worker", 1): ("c",)}
    assert list(of_two.taken()) == ["a", "b", "c"]
    of_two.vanish()
    assert list(of_two.taken()) == []


def test_a_gang_that_cannot_be_launched_ends_with_the_reason():
    of_two = gang()
    of_two.cannot = "n1 has no free device"
    assert of_two.give_up() == [exited(0, Exit(lost=True, detail="n1 has no free device"))]


def test_a_new_controller_knows_what_the_last_one_wrote_down():
    before = gang()
    before.devices = {("worker", 0): ("a",), ("worker", 1): ("b",)}
    rows = tasks_of(before)
    assert rows[3] == Task("job-1", 3, 3, "worker", 1, "n2", ("b",))
    seen = [Task(*KEY, 0, "worker", 0, "n1", ("a",), 100, 7, code=0), Task(*KEY, 1, "worker", 0, "n1", ("a",), 101, 7)]
    after = remembered_gang(KEY, JOB, [*seen, *rows[2:]])
    assert after.devices == before.devices
    assert after.nodes == before.nodes
    assert after.members.started
    events, words = after.end_rank(1, {"code": 0})
    assert events == [exited(0, Exit(code=0, detail=words))]
    assert after.start() == []


def test_of_an_unknown_gang_only_the_end_can_be_told():
    unknown = LaunchedGang(KEY)
    assert unknown.end_rank(0, {"code": 1}) == ([], "")
    assert unknown.vanish() == [JobEvent("job-1", GangGone(3))]


def failed(rank: int, code: int) -> dict[str, object]:
    return {"type": "failure", "generation": 1, "kind": "failed", "rank": rank, "code": code, "reason": "x"}


def by_agents() -> LaunchedGang:
    return new_gang(KEY, replace(JOB, launcher=Launcher.AGENT), Placement({"worker": ("n1", "n2")}))


def test_a_recovery_is_told_when_all_agents_have_and_took_as_long_as_the_slowest():
    gang = by_agents()
    assert gang.receive_agent_message(1, failed(3, -9)) == []
    assert gang.receive_agent_message(0, failed(0, 1)) == [], "it has lost its peer"
    back = {"type": "recovery", "generation": 2, "reason": "x"}
    assert gang.receive_agent_message(0, {**back, "seconds": 0.25}) == []
    killed = Exit(signal=9, detail="rank 3 (worker/1) on n2 killed by SIGKILL")
    assert gang.receive_agent_message(1, {**back, "seconds": 1.5}) == [JobEvent("job-1", Recovered(3, 2, killed, 1500))]


def test_a_recovery_that_was_overtaken_by_the_next_failure_still_counts():
    gang = by_agents()
    gang.receive_agent_message(
        0, {"type": "recovery", "generation": 2, "seconds": 0.5, "reason": "the store has ended"}
    )
    lost = Exit(signal=9, detail="the store has ended")
    told = gang.receive_agent_message(1, {"type": "recovery", "generation": 3, "seconds": 0.5, "reason": "x"})
    assert told == [JobEvent("job-1", Recovered(3, 2, lost, 500))]


def test_what_agents_could_not_put_right_is_told_as_it_was():
    gang = by_agents()
    gang.receive_agent_message(1, failed(2, 7))
    events, words = gang.end_rank(0, {"code": 7})
    assert words == "rank 2 (worker/1) on n2 exited with code 7"
    assert events == [exited(0, Exit(code=7, detail=words))]
    gang = by_agents()
    assert gang.end_rank(1, {"signal": 9})[1] == "the agent (worker/1) on n2 killed by SIGKILL"


def test_a_new_controller_knows_what_went_wrong_and_who_is_back():
    before = by_agents()
    before.receive_agent_message(1, failed(3, 7))
    before.receive_agent_message(0, {"type": "recovery", "generation": 2, "seconds": 0.25, "reason": "x"})
    kept = msgspec.json.decode(msgspec.json.encode(before.agent_record), type=AgentRecord)
    after = remembered_gang(KEY, before.job, tasks_of(before), kept)
    told = after.receive_agent_message(1, {"type": "recovery", "generation": 2, "seconds": 0.1, "reason": "x"})
    by_itself = Exit(code=7, detail="rank 3 (worker/1) on n2 exited with code 7")
    assert told == [JobEvent("job-1", Recovered(3, 2, by_itself, 250))]
    assert after.agent_record == AgentRecord()


def test_a_recovery_counts_even_if_the_gang_ends_before_all_agents_have_told():
    gang = by_agents()
    gang.receive_agent_message(1, failed(3, 7))
    gang.receive_agent_message(0, {"type": "recovery", "generation": 2, "seconds": 0.25, "reason": "x"})
    [event] = gang.report_recovery()
    assert isinstance(event.event, Recovered)
    assert gang.report_recovery() == []
