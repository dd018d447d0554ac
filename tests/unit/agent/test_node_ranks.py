"""One node's ranks from one generation to the next, told as stories: no process, no clock."""

import json
import signal
import time
from collections import deque

import pytest

from windlass import wire
from windlass.agent import messages
from windlass.agent.event_loop import Timer
from windlass.agent.launcher_settings import LauncherSettings
from windlass.agent.options import Options
from windlass.agent.rank_events import RankFailed, RanksReady, RanksStopped
from windlass.agent.ranks import node_ranks
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.ranks.output import Files


class Clock:
    """A loop in which time passes when it is told to."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def after(self, seconds, call):
        self.calls.append((self.now + seconds, timer := Timer(call)))
        return timer

    def passes(self, seconds=0.0):
        until = self.now + seconds
        while due := [each for each in self.calls if each[0] <= until]:
            self.calls.remove(first := min(due, key=lambda each: each[0]))
            self.now, timer = first
            if timer.call is not None:
                timer.call()
        self.now = until


class Forks:
    """Starts nothing, and remembers what of."""

    def __init__(self, _loop, _python, _environment, tell):
        self.tell, self.started, self.killed = tell, {}, []

    def run(self, number, _argv, _how, env, _files):
        self.started[number] = env

    def signal(self, numbers, what, *, group):
        if what == signal.SIGKILL and group:
            self.killed = [int(self.started[number]["RANK"]) for number in numbers]


class Ears:
    """Hears what a test says, and has nobody to tell."""

    def __init__(self, _loop, _folder, hear):
        self.path, self.hear, self.notes = "", lambda message: hear(message, time.monotonic()), []

    def read_rings(self):
        while self.notes:
            self.hear(self.notes.pop(0))

    def send(self, _ranks, _message):
        pass

    def forget(self):
        pass


class Paper:
    """Output that nobody reads."""

    def __init__(self, folder):
        self.folder = folder

    def attempt(self, generation):
        return self.folder / str(generation)

    def open(self, *_where):
        return Nothing(-1, -1, -1, "")

    def drain(self):
        pass

    def silent(self):
        return 0.0


class Nothing(Files):
    def close(self):
        pass


class Node:
    """An agent's node, whose other nodes have one rank each."""

    def __init__(self, folder, budget=None):
        self.clock, self.said = Clock(), []
        supervised = LauncherSettings(records=str(folder), budget=budget)
        options = Options(("train.py",), "script", "1")
        self.local = NodeRanks(self.clock, options, Paper(folder), folder, supervised, self.said.append)
        self.forks, self.ears, self.folder = self.local._fork_server, self.local._receiver, folder
        self.forks.tell({"event": "ready", "torch": "", "why": ""})

    def starts(self, generation, ranks, *, nodes=1, me=0, keep=False):
        members = tuple(wire.Member(f"n{at}", "10.0.0.1", ranks if at == me else 1) for at in range(nodes))
        membership = wire.Membership(generation, members, 4000, me=me)
        if keep:
            self.local.reform(membership, None, "rank 9 killed")
        else:
            self.local.start(membership, None)
        self.clock.passes()

    def greets(self, *ranks):
        for rank in ranks:
            self.ears.hear(wire.Hello(rank, self.local.generation, 1, reforms=True))
        self.clock.passes()

    def loses(self, rank, code=-9):
        number = max(number for number, env in self.forks.started.items() if env["RANK"] == str(rank))
        self.forks.tell({"event": "exit", "id": number, "code": code, "at": 0.0})

    def goes_on_without_rank_1(self):
        """Of three: generation 2 has another one, and 0 and 2 are to come into it."""
        self.starts(1, 3)
        self.greets(0, 1, 2)
        self.loses(1)
        self.starts(2, 3, keep=True)

    def broken(self):
        return [each for each in self.said if isinstance(each, RankFailed)]

    def survivors(self):
        """What each rank that was started was told of others that go on."""
        return {int(env["RANK"]): env[wire.SURVIVORS] for env in self.forks.started.values()}

    def board(self):
        self.clock.passes(1.0)
        return {each["rank"]: each for each in json.loads((self.folder / "ranks.json").read_text())["ranks"]}


@pytest.fixture
def node(monkeypatch, tmp_path):
    monkeypatch.setattr(node_ranks, "ForkServerClient", Forks)
    monkeypatch.setattr(node_ranks, "HeartbeatReceiver", Ears)
    return lambda **more: Node(tmp_path, **more)


def test_a_spare_that_is_taken_into_a_kept_generation_knows_that_others_have_the_state(node):
    spare = node()
    spare.starts(7, 2, nodes=3, me=2, keep=True)
    assert spare.survivors() == {2: "1", 3: "1"}


def test_all_of_a_new_generation_know_that_nobody_has_the_state(node):
    here = node()
    here.starts(1, 2, nodes=2)
    assert here.survivors() == {0: "0", 1: "0"}


def test_a_node_without_survivors_takes_its_time_to_start_them_anew(node):
    here = node()
    here.starts(1, 1, nodes=2)
    here.greets(0)
    here.loses(0)
    here.starts(2, 1, nodes=2, keep=True)
    here.said.clear()
    here.clock.passes(100.0)
    assert not here.said
    here.greets(0)
    assert here.said == [RanksReady("", 2)]


def test_a_survivor_that_does_not_answer_is_started_anew_beside_those_that_do(node, capsys):
    here = node()
    here.goes_on_without_rank_1()
    here.greets(2)
    here.said.clear()
    here.clock.passes(4.9)
    assert not here.forks.killed
    here.clock.passes(0.2)
    assert here.forks.killed == [0]
    here.loses(0)
    assert not here.said
    assert sorted(env["RANK"] for env in here.forks.started.values()) == ["0", "0", "1", "1", "2"]
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["WINDLASS_GENERATION"], newest[wire.SURVIVORS]) == ("0", "2", "1")
    here.greets(0, 1)
    assert here.said == [RanksReady("", 2)]


def test_where_no_other_can_have_the_state_a_survivor_that_does_not_answer_is_named(node):
    here = node()
    here.starts(1, 2)
    here.greets(0, 1)
    here.loses(1)
    here.starts(2, 2, keep=True)
    here.said.clear()
    here.clock.passes(5.1)
    assert not here.forks.killed
    assert here.said == [RankFailed("", 2, wire.ExitCode.RETRY, "rank 0 is not in generation 2 after 5 s", "uncounted")]


def test_who_was_started_instead_keeps_its_place_when_ranks_are_lost_again(node):
    here = node()
    here.goes_on_without_rank_1()
    here.greets(2)
    here.clock.passes(5.1)
    here.loses(0)
    here.greets(0, 1)
    here.loses(2)
    here.starts(3, 3, keep=True)
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["LOCAL_RANK"]) == ("2", "2")


def test_a_late_word_of_a_rank_that_is_being_killed_is_not_heard(node):
    here = node()
    here.goes_on_without_rank_1()
    here.greets(1, 2)
    here.said.clear()
    here.clock.passes(5.1)
    here.greets(0)
    assert not here.said
    here.loses(0)
    here.greets(0)
    assert here.said == [RanksReady("", 2)]


def test_a_rank_that_is_being_killed_is_lost_to_a_membership_that_comes_meanwhile(node):
    here = node()
    here.goes_on_without_rank_1()
    here.greets(1, 2)
    here.clock.passes(5.1)
    here.starts(3, 3, keep=True)
    newest = here.forks.started[max(here.forks.started)]
    assert (newest["RANK"], newest["WINDLASS_GENERATION"]) == ("0", "3")
    here.said.clear()
    here.greets(0, 1, 2)
    assert here.said == [RanksReady("", 3)]


def test_ranks_past_their_loop_are_asked_to_end_and_not_killed(node):
    here = node()
    here.starts(1, 2, nodes=2)
    here.greets(0, 1)
    here.ears.hear(wire.Goodbye(0, 1))
    here.starts(2, 2, nodes=2, keep=True)
    here.clock.passes(0.1)
    assert not here.forks.killed
    assert [each.code for each in here.broken()] == [wire.ExitCode.RETRY]


def test_other_nodes_may_have_the_state(node):
    here = node()
    here.starts(1, 1, nodes=3)
    here.greets(0)
    here.starts(2, 1, nodes=2, keep=True)
    here.said.clear()
    here.clock.passes(5.1)
    assert here.forks.killed == [0]
    here.loses(0)
    assert not here.said


def test_a_rank_that_is_killed_for_being_late_ends_with_all_where_they_are_stopped_meanwhile(node):
    here = node()
    here.goes_on_without_rank_1()
    here.greets(2)
    here.clock.passes(5.1)
    here.local.halt(2, "node n2 is lost")
    here.said.clear()
    here.loses(0)
    here.loses(1)
    here.loses(2)
    here.clock.passes()
    assert [type(each) for each in here.said] == [RanksStopped]


def test_survivors_in_long_steps_have_the_time_for_one(node):
    here = node()
    here.starts(1, 2)
    here.greets(0, 1)
    here.local.heartbeats.durations = {
        "forward": deque([2.0, 8.0, 3.0]),
        "backward": deque([12.0]),
        "save": deque([500.0]),
    }
    here.loses(1)
    here.starts(2, 2, keep=True)
    here.said.clear()
    here.clock.passes(29.0)
    assert not here.said
    here.clock.passes(2.0)
    assert [each.why for each in here.said] == ["rank 0 is not in generation 2 after 30 s"]


def test_nobody_waits_for_an_earlier_membership_any_more(node):
    here = node()
    here.starts(1, 2)
    here.greets(0, 1)
    here.loses(1)
    here.starts(2, 2, keep=True)
    here.clock.passes(3.0)
    here.starts(3, 2, keep=True)  # they have not even taken that one: this is said once, and at once
    assert [each.generation for each in here.broken()] == [1, 3]
    here.greets(0, 1)
    here.clock.passes(60.0)
    assert [each.generation for each in here.broken()] == [1, 3]


def test_notes_of_ranks_are_read_before_they_are_judged(node):
    here = node()
    here.starts(1, 2)
    here.ears.notes = [wire.Heartbeat(rank, 1, 5, "forward", 9 - rank) for rank in (0, 1)]
    assert here.local.slowest_rank(0.0).rank == 1


def test_what_a_lost_rank_noted_last_does_not_bring_it_back(node):
    here = node()
    here.starts(1, 2)
    here.ears.notes = [wire.Heartbeat(rank, 1, 5, "forward", 9 - rank) for rank in (0, 1)]
    here.loses(1)
    assert here.local.slowest_rank(0.0).rank == 0


def test_ranks_that_are_lost_together_are_one_failure(node):
    here = node(budget=wire.RestartBudget(9, (), (), 0, 1.0, 300.0, 600.0))
    here.starts(1, 3)
    here.greets(0, 1, 2)
    here.loses(0)
    here.clock.passes()
    here.starts(2, 3, keep=True)
    here.loses(1)
    here.clock.passes()
    here.greets(0)
    failures = [(each.generation, each.code, each.counts_as) for each in here.broken()]
    assert failures == [
        (1, -9, "infrastructure"),
        (2, 84, "uncounted"),
    ]


@pytest.mark.parametrize(("answered", "code"), [(True, -9), (False, 1)])
def test_a_rank_that_is_lost_later_or_gives_up_itself_is_another_failure(node, answered, code):
    here = node()
    here.starts(1, 2)
    here.greets(0, 1)
    here.loses(0)
    here.starts(2, 2, keep=True)
    if answered:
        here.greets(1)
    here.loses(1, code=code)
    here.clock.passes()
    assert [each.code for each in here.broken()] == [-9, code]


def test_the_board_shows_the_rank_that_was_started_and_not_how_the_last_one_ended(node):
    here = node()
    here.starts(1, 2)
    here.greets(0, 1)
    here.loses(1)
    assert here.board()[1]["code"] == -9
    here.starts(2, 2, keep=True)
    assert "code" not in here.board()[1]
    assert here.board()[1]["env"][wire.GENERATION] == "2"


def test_the_board_follows_ranks_that_are_numbered_anew(node):
    here = node()
    here.starts(1, 2, nodes=2, me=1)
    here.greets(1, 2)
    for number, rank in ((1, 1), (2, 2)):
        here.forks.tell({"event": "started", "id": number, "pid": 70 + rank})
        here.ears.hear(wire.Telemetry(rank, 1, 5, {"loss": float(rank)}))
    here.starts(2, 2, keep=True)
    board = here.board()
    assert {rank: (said["pid"], said["values"]["loss"]) for rank, said in board.items()} == {0: (71, 1.0), 1: (72, 2.0)}
    told = board[0]["env"]
    assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"], told[wire.GENERATION]) == ("0", "2", "0", "2")


@pytest.mark.parametrize(("survivors", "said"), [(1, "1 rank went on, 2 started anew"), (2, "2 ranks went on, 1")])
def test_one_rank_goes_on_and_two_ranks_do(survivors, said):
    past = messages.Recovery("", 0.0, 0.0, 0.0, 1.0)
    assert said in messages.describe_survivors(2, past, survivors, 3 - survivors)
