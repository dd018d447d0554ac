"""The ranks of one node over several generations, without processes and without a clock."""

import json
import signal
import time
from collections import deque

import pytest

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import DelayedCall
from windlass.agent.options import Options
from windlass.agent.parent_settings import ParentSettings
from windlass.agent.rank_events import RankFailed, RanksReady, RanksStopped
from windlass.agent.ranks import rank_messages, rank_processes
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.ranks.output import RankFiles


class Clock:
    """An event loop with a virtual clock."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def after(self, seconds, call):
        self.calls.append((self.now + seconds, timer := DelayedCall(call)))
        return timer

    def advance(self, seconds=0.0):
        until = self.now + seconds
        while due := [each for each in self.calls if each[0] <= until]:
            self.calls.remove(first := min(due, key=lambda each: each[0]))
            self.now, timer = first
            if timer.call is not None:
                timer.call()
        self.now = until


class FakeForkServer:
    """Records requests and starts no process."""

    def __init__(self, _loop, _python, _environment, tell):
        self.tell, self.started, self.killed = tell, {}, []

    def run(self, process_id, _argv, _how, env, _files):
        self.started[process_id] = env

    def send_signal(self, process_ids, signum, *, group):
        if signum == signal.SIGKILL and group:
            self.killed = [int(self.started[process_id]["RANK"]) for process_id in process_ids]


class FakeReceiver:
    """Receives messages from the test, and sends none."""

    def __init__(self, _loop, _folder, hear):
        self.path, self.hear, self.ring = "", lambda message: hear(message, time.monotonic()), []

    def read_rings(self):
        while self.ring:
            self.hear(self.ring.pop(0))

    def send(self, _ranks, _message):
        pass

    def forget(self):
        pass


class FakeOutput:
    """Output without files."""

    def __init__(self, folder):
        self.folder = folder

    def attempt(self, generation):
        return self.folder / str(generation)

    def open(self, *_where):
        return NoFiles(-1, -1, -1, "")

    def drain(self):
        pass

    def silent(self):
        return 0.0


class NoFiles(RankFiles):
    def close(self):
        pass


class Node:
    """An agent's node, whose other nodes have one rank each."""

    def __init__(self, folder, budget=None):
        self.clock, self.events = Clock(), []
        supervised = ParentSettings(records=str(folder), budget=budget)
        options = Options(("train.py",), "script", "1")
        self.local = NodeRanks(self.clock, options, FakeOutput(folder), folder, supervised, self.events.append)
        self.forks, self.receiver = self.local.processes._fork_server, self.local.messages._receiver
        self.folder = folder
        self.forks.tell({"event": "ready", "torch": "", "reason": ""})

    def start(self, generation, ranks, *, nodes=1, me=0, keep=False):
        members = tuple(wire.MemberNode(f"n{at}", "10.0.0.1", ranks if at == me else 1) for at in range(nodes))
        membership = wire.Membership(generation, members, 4000, me=me)
        self.local.start(membership, None, keep=keep, reason="rank 9 killed" if keep else "")
        self.clock.advance()

    def greet(self, *ranks):
        for rank in ranks:
            self.receiver.hear(wire.Hello(rank, self.local.generation, 1, reforms=True))
        self.clock.advance()

    def lose(self, rank, code=-9):
        number = max(number for number, env in self.forks.started.items() if env["RANK"] == str(rank))
        self.forks.tell({"event": "exit", "id": number, "code": code, "at": 0.0})

    def replace_rank_1(self):
        """Generation 2 replaces rank 1 of three; ranks 0 and 2 are to enter it."""
        self.start(1, 3)
        self.greet(0, 1, 2)
        self.lose(1)
        self.start(2, 3, keep=True)

    def failures(self):
        return [each for each in self.events if isinstance(each, RankFailed)]

    def survivors(self):
        """Value of SURVIVORS of each started rank."""
        return {int(env["RANK"]): env[wire.SURVIVORS] for env in self.forks.started.values()}

    def status(self):
        self.clock.advance(1.0)
        return {each["rank"]: each for each in json.loads((self.folder / "ranks.json").read_text())["ranks"]}


@pytest.fixture
def node(monkeypatch, tmp_path):
    monkeypatch.setattr(rank_processes, "ForkServerClient", FakeForkServer)
    monkeypatch.setattr(rank_messages, "HeartbeatReceiver", FakeReceiver)
    return lambda **more: Node(tmp_path, **more)


def test_a_spare_node_that_joins_survivors_gets_the_state_from_them(node):
    spare = node()
    spare.start(7, 2, nodes=3, me=2, keep=True)
    assert spare.survivors() == {2: "1", 3: "1"}


def test_ranks_of_a_new_generation_know_that_none_has_the_state(node):
    here = node()
    here.start(1, 2, nodes=2)
    assert here.survivors() == {0: "0", 1: "0"}


def test_a_node_without_survivors_takes_its_time_to_start_them_anew(node):
    here = node()
    here.start(1, 1, nodes=2)
    here.greet(0)
    here.lose(0)
    here.start(2, 1, nodes=2, keep=True)
    here.events.clear()
    here.clock.advance(100.0)
    assert not here.events
    here.greet(0)
    assert here.events == [RanksReady("", 2)]


def test_a_survivor_that_does_not_answer_is_replaced_beside_those_that_do(node, capsys):
    here = node()
    here.replace_rank_1()
    here.greet(2)
    here.events.clear()
    here.clock.advance(4.9)
    assert not here.forks.killed
    here.clock.advance(0.2)
    assert here.forks.killed == [0]
    here.lose(0)
    assert not here.events
    assert sorted(env["RANK"] for env in here.forks.started.values()) == ["0", "0", "1", "1", "2"]
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["WINDLASS_GENERATION"], newest[wire.SURVIVORS]) == ("0", "2", "1")
    here.greet(0, 1)
    assert here.events == [RanksReady("", 2)]


def test_a_late_survivor_fails_the_generation_where_no_other_rank_can_have_the_state(node):
    here = node()
    here.start(1, 2)
    here.greet(0, 1)
    here.lose(1)
    here.start(2, 2, keep=True)
    here.events.clear()
    here.clock.advance(5.1)
    assert not here.forks.killed
    assert here.events == [
        RankFailed("", 2, wire.RankExitCode.RETRY, "rank 0 is not in generation 2 after 5 s", "uncounted")
    ]


def test_a_replacement_keeps_its_position_when_ranks_are_lost_again(node):
    here = node()
    here.replace_rank_1()
    here.greet(2)
    here.clock.advance(5.1)
    here.lose(0)
    here.greet(0, 1)
    here.lose(2)
    here.start(3, 3, keep=True)
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["LOCAL_RANK"]) == ("2", "2")


def test_a_late_message_of_a_rank_that_is_being_killed_is_ignored(node):
    here = node()
    here.replace_rank_1()
    here.greet(1, 2)
    here.events.clear()
    here.clock.advance(5.1)
    here.greet(0)
    assert not here.events
    here.lose(0)
    here.greet(0)
    assert here.events == [RanksReady("", 2)]


def test_a_rank_that_is_being_killed_is_no_survivor_of_the_next_membership(node):
    here = node()
    here.replace_rank_1()
    here.greet(1, 2)
    here.clock.advance(5.1)
    here.start(3, 3, keep=True)
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["WINDLASS_GENERATION"]) == ("0", "3")
    here.events.clear()
    here.greet(0, 1, 2)
    assert here.events == [RanksReady("", 3)]


def test_ranks_past_their_loop_are_asked_to_end_and_not_killed(node):
    here = node()
    here.start(1, 2, nodes=2)
    here.greet(0, 1)
    here.receiver.hear(wire.Goodbye(0, 1))
    here.start(2, 2, nodes=2, keep=True)
    here.clock.advance(0.1)
    assert not here.forks.killed
    assert [each.code for each in here.failures()] == [wire.RankExitCode.RETRY]


def test_a_late_survivor_is_killed_where_other_nodes_may_have_the_state(node):
    here = node()
    here.start(1, 1, nodes=3)
    here.greet(0)
    here.start(2, 1, nodes=2, keep=True)
    here.events.clear()
    here.clock.advance(5.1)
    assert here.forks.killed == [0]
    here.lose(0)
    assert not here.events


def test_a_late_survivor_is_not_replaced_once_all_ranks_are_stopped(node):
    here = node()
    here.replace_rank_1()
    here.greet(2)
    here.clock.advance(5.1)
    here.local.stop(2, "node n2 is lost")
    here.events.clear()
    here.lose(0)
    here.lose(1)
    here.lose(2)
    here.clock.advance()
    assert [type(each) for each in here.events] == [RanksStopped]


def test_survivors_with_long_steps_get_the_time_of_one_step(node):
    here = node()
    here.start(1, 2)
    here.greet(0, 1)
    here.local.messages.heartbeats.durations = {
        "forward": deque([2.0, 8.0, 3.0]),
        "backward": deque([12.0]),
        "save": deque([500.0]),
    }
    here.lose(1)
    here.start(2, 2, keep=True)
    here.events.clear()
    here.clock.advance(29.0)
    assert not here.events
    here.clock.advance(2.0)
    assert [each.reason for each in here.events] == ["rank 0 is not in generation 2 after 30 s"]


def test_a_new_membership_ends_the_wait_for_an_earlier_one(node):
    here = node()
    here.start(1, 2)
    here.greet(0, 1)
    here.lose(1)
    here.start(2, 2, keep=True)
    here.clock.advance(3.0)
    here.start(3, 2, keep=True)  # they have not even taken that one: this is said once, and at once
    assert [each.generation for each in here.failures()] == [1, 3]
    here.greet(0, 1)
    here.clock.advance(60.0)
    assert [each.generation for each in here.failures()] == [1, 3]


def test_heartbeat_rings_are_read_before_the_slowest_rank_is_found(node):
    here = node()
    here.start(1, 2)
    here.receiver.ring = [wire.Heartbeat(rank, 1, 5, "forward", 9 - rank) for rank in (0, 1)]
    assert here.local.slowest_rank(0.0).rank == 1


def test_the_last_heartbeats_of_a_lost_rank_do_not_bring_it_back(node):
    here = node()
    here.start(1, 2)
    here.receiver.ring = [wire.Heartbeat(rank, 1, 5, "forward", 9 - rank) for rank in (0, 1)]
    here.lose(1)
    assert here.local.slowest_rank(0.0).rank == 0


def test_ranks_that_are_lost_together_are_one_failure(node):
    here = node(budget=wire.RestartBudget(9, (), (), 0, 1.0, 300.0, 600.0))
    here.start(1, 3)
    here.greet(0, 1, 2)
    here.lose(0)
    here.clock.advance()
    here.start(2, 3, keep=True)
    here.lose(1)
    here.clock.advance()
    here.greet(0)
    found = [(each.generation, each.code, each.charged_to) for each in here.failures()]
    assert found == [
        (1, -9, "infrastructure"),
        (2, 84, "uncounted"),
    ]


@pytest.mark.parametrize(("answered", "code"), [(True, -9), (False, 1)])
def test_a_rank_that_is_lost_later_or_exits_by_itself_is_another_failure(node, answered, code):
    here = node()
    here.start(1, 2)
    here.greet(0, 1)
    here.lose(0)
    here.start(2, 2, keep=True)
    if answered:
        here.greet(1)
    here.lose(1, code=code)
    here.clock.advance()
    assert [each.code for each in here.failures()] == [-9, code]


def test_the_status_file_shows_the_replacement_and_not_the_end_of_the_lost_rank(node):
    here = node()
    here.start(1, 2)
    here.greet(0, 1)
    here.lose(1)
    assert here.status()[1]["code"] == -9
    here.start(2, 2, keep=True)
    assert "code" not in here.status()[1]
    assert here.status()[1]["env"][wire.GENERATION] == "2"


def test_the_status_file_follows_ranks_that_get_new_numbers(node):
    here = node()
    here.start(1, 2, nodes=2, me=1)
    here.greet(1, 2)
    for number, rank in ((1, 1), (2, 2)):
        here.forks.tell({"event": "started", "id": number, "pid": 70 + rank})
        here.receiver.hear(wire.Telemetry(rank, 1, 5, {"loss": float(rank)}))
    here.start(2, 2, keep=True)
    status = here.status()
    assert {rank: (entry["pid"], entry["values"]["loss"]) for rank, entry in status.items()} == {
        0: (71, 1.0),
        1: (72, 2.0),
    }
    variables = status[0]["env"]
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["LOCAL_RANK"], variables[wire.GENERATION]) == (
        "0",
        "2",
        "0",
        "2",
    )


@pytest.mark.parametrize(("survivors", "text"), [(1, "1 rank went on, 2 started anew"), (2, "2 ranks went on, 1")])
def test_the_line_about_survivors_has_a_singular_and_a_plural(survivors, text):
    past = messages.RestartTimes("", 0.0, 0.0, 0.0, 1.0)
    assert text in messages.describe_survivors(2, past, survivors, 3 - survivors)
