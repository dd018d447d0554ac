"""Rendezvous of a gang's agents through the operator: the memberships that agents receive, whatever they report."""

from __future__ import annotations

import math
from typing import Any

import pytest

from windlass.agent import rank_events
from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents.rendezvous import Ears, Rendezvous
from windlass.core.model.job import RestartPolicy

PLACES = {"w-0": 0, "w-1": 1}


class Line:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.closed = False

    def say(self, message: Any) -> None:
        self.told.append(dict(message))

    def close(self) -> None:
        self.closed = True

    def words(self) -> list[str]:
        """Kinds of messages since the last look."""
        told, self.told = [each["type"] for each in self.told], []
        return told

    @property
    def generation(self) -> int:
        """The generation of its last start."""
        return int(next(each for each in reversed(self.told) if each["type"] == "start")["membership"]["generation"])


class Room:
    """A meeting, and what came of it."""

    def __init__(self, *, forgiving: bool = True) -> None:
        self.restarts: list[tuple[int, str]] = []
        self.hangs: list[tuple[int, str]] = []
        self.closed = 0
        ears = Ears(lambda _: forgiving, self._restarted, lambda *told: self.hangs.append(told), self._closes)
        self.meeting = Rendezvous(PLACES, 1, ears, 0.0, RestartPolicy(backoff_base=2_000))
        self.lines: dict[str, Line] = {}

    def call(self, name: str, at: float = 1.0, **hello: Any) -> Line:
        line = self.lines[name] = Line()
        usual = {"id": f"agent of {name}", "address": "10.0.0.1", "port": 4000 + PLACES[name], "ranks": 2}
        self.meeting.join(
            name, f"n{PLACES[name]}", {**usual, "generation": 0, "seen": 0, "last": None, **hello}, line, at
        )
        return line

    def both(self, **hello: Any) -> list[Line]:
        return [self.call(name, **hello) for name in PLACES]

    def fails(self, name: str, generation: int, code: int = 1, at: float = 50.0) -> None:
        failed = {"type": "failed", "id": "", "generation": generation, "code": code, "why": "rank 1 exited with 1"}
        self.meeting.hear(name, failed, at)

    def stop(self, name: str, generation: int, at: float = 51.0) -> None:
        self.meeting.hear(name, {"type": "stopped", "id": "", "generation": generation, "code": 0}, at)

    def beat(self, name: str, rank: int, beat: int, waited: float, generation: int = 1) -> None:
        behind = [rank, 7, "forward", beat, waited, 10.0, 0.0, [7, beat, rank, "forward"]]
        said = {"type": "beat", "generation": generation, "behind": behind, "silence": 0}
        self.meeting.hear(name, said, 60.0)

    def _restarted(self, generation: int, why: str, _failed: object) -> None:
        self.restarts.append((generation, why))

    def _closes(self) -> None:
        self.closed += 1


def test_all_have_to_come_and_the_store_is_where_the_first_one_says() -> None:
    room = Room()
    second = room.call("w-1")
    assert second.words() == ["welcome"]
    first = room.call("w-0")
    told = first.told[-1]["membership"]
    assert (told["port"], told["me"], [member["node"] for member in told["members"]]) == (4000, 0, ["n0", "n1"])
    assert second.words() == ["start"]


def test_the_next_generation_meets_at_another_port() -> None:
    room = Room()
    first, second = room.both()
    room.meeting.hear("w-0", {"type": "port", "port": 4711}, 2.0)
    room.fails("w-1", 1)
    for name in PLACES:
        room.stop(name, 1)
    assert second.told[-1]["membership"]["port"] == 4711
    assert [first.generation, second.generation] == [2, 2]
    assert room.restarts == [(2, "rank 1 exited with 1")]


def test_the_second_restart_in_a_row_waits_as_the_job_says() -> None:
    room = Room()
    first, _ = room.both()
    for generation, at in ((1, 50.0), (2, 60.0)):
        room.fails("w-1", generation, at=at)
        for name in PLACES:
            room.stop(name, generation, at)
    assert first.words()[-1] == "halt"
    room.meeting.look(62.0)
    assert first.generation == 3


def test_a_lost_connection_stops_no_agent_and_the_agent_receives_what_it_missed() -> None:
    room = Room()
    first, second = room.both()
    room.meeting.left("w-1", second)
    assert first.words() == ["welcome", "start"]
    again = room.call("w-1")  # it has not started: the order was lost
    assert again.words() == ["welcome", "start"]
    once_more = room.call("w-1", generation=1, seen=1)
    assert once_more.words() == ["welcome"]
    assert again.closed


def test_an_agent_that_missed_a_generation_others_keep_is_told_that_its_ranks_go_on() -> None:
    room = Room()
    first, second = room.both()
    for name in PLACES:
        room.meeting.hear(name, {"type": "ready", "id": "", "generation": 1}, 40.0)
    room.meeting.left("w-1", second)
    room.fails("w-0", 1)
    assert (first.generation, first.told[-1]["keep"]) == (2, True)
    again = room.call("w-1", generation=1, seen=1)
    assert (again.generation, again.told[-1]["keep"]) == (2, True)


def test_another_agent_in_the_same_pod_has_lost_its_ranks() -> None:
    room = Room()
    first, _ = room.both()
    anew = room.call("w-1", id="another", at=40.0)
    assert first.words()[-1] == "halt"
    room.stop("w-0", 1)
    assert [first.generation, anew.generation] == [2, 2]
    assert room.restarts == [(2, "an agent has come anew")]


def test_agents_that_run_are_taken_up_and_who_runs_something_else_is_stopped() -> None:
    room = Room()
    first = room.call("w-0", generation=5, seen=5)
    stray = room.call("w-1", generation=4, seen=4)
    assert (first.words(), stray.words()) == (["welcome"], ["welcome", "halt"])
    room.stop("w-1", 4)
    assert first.words() == ["halt"]
    room.stop("w-0", 5)
    assert [first.generation, stray.generation] == [6, 6]


def test_messages_sent_without_a_listener_are_received() -> None:
    room = Room()
    failed = {"type": "failed", "id": "", "generation": 5, "code": -9, "why": "rank 3 killed by SIGKILL"}
    room.call("w-0", generation=5, seen=5)
    last = room.call("w-1", generation=5, seen=5, last=failed)
    assert last.words() == ["welcome", "halt"]


def test_a_failure_beyond_the_limit_ends_all_agents_once_their_ranks_are_gone() -> None:
    room = Room(forgiving=False)
    first, second = room.both()
    room.fails("w-1", 1, code=-9)
    room.stop("w-0", 1)
    assert room.closed == 0
    room.stop("w-1", 1)
    assert [line.told[-1]["type"] for line in (first, second)] == ["close", "close"]
    assert (first.told[-1]["code"], room.closed) == (-9, 1)
    late = room.call("w-1", generation=0, seen=1)  # it had not heard it
    assert late.words() == ["welcome", "close"]


def test_a_run_that_was_over_begins_again_where_kubelets_start_containers_again() -> None:
    room = Room(forgiving=False)
    room.both()
    room.fails("w-1", 1)
    for name in PLACES:
        room.stop(name, 1)
    anew = [room.call(name, at=90.0, id=f"another of {name}") for name in PLACES]
    assert [line.generation for line in anew] == [2, 2]


def test_the_rank_that_is_furthest_behind_is_accused_by_all_that_are_heard() -> None:
    room = Room()
    first, second = room.both()
    room.beat("w-1", 3, beat=20, waited=12.0)
    room.meeting.look(61.0)
    assert not room.hangs, "w-0 was not heard, and may be the one"
    room.beat("w-0", 0, beat=21, waited=11.0)
    room.meeting.look(62.0)
    ((rank, why),) = room.hangs
    assert (rank, room.meeting.owner(rank)) == (3, "w-1")
    assert why.startswith("rank 3 is in forward of step 7 for 12.0 s")
    assert [line.told[-1] for line in (first, second)] == [{"type": "interrogate", "rank": 3}] * 2
    room.meeting.look(63.0)
    assert second.words()[-1] == "halt"


def test_an_old_heartbeat_accuses_no_rank() -> None:
    room = Room()
    room.both()
    for name, rank in (("w-0", 0), ("w-1", 3)):
        room.beat(name, rank, beat=20, waited=99.0, generation=9)
    room.meeting.look(61.0)
    assert not room.hangs


@pytest.mark.parametrize(
    "wrong", [{"port": 0}, {"ranks": 0}, {"address": ""}, {"port": "x"}, {"seen": 1 << 60}, {"generation": 1 << 60}]
)
def test_a_peer_that_sends_nonsense_is_no_agent(wrong: dict[str, Any]) -> None:
    room = Room()
    with pytest.raises(ValueError, match=r".*"):
        room.call("w-0", **wrong)
    assert not room.meeting.attendees


WELL = [0, 7, "forward", 21, 1.0, 10.0, 0.0, [7, 21, 0, "forward"]]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, "0"),
        (1, True),
        (1, 1 << 60),
        (2, None),
        (2, "\ud800"),
        (4, math.nan),
        (4, math.inf),
        (4, "1"),
        (5, math.nan),
        (7, [7, 21, 0]),
        (7, [7, "21", 0, "forward"]),
    ],
)
def test_one_agent_cannot_send_what_would_stop_the_judgement_of_all(place: int, wrong: Any) -> None:
    room = Room()
    room.both()
    room.beat("w-1", 3, beat=20, waited=1.0)
    behind = [*WELL[:place], wrong, *WELL[place + 1 :]]
    with pytest.raises((ValueError, TypeError)):
        room.meeting.hear("w-0", {"type": "beat", "generation": 1, "behind": behind, "silence": 0}, 60.0)
    room.meeting.look(61.0)
    assert not room.hangs


def test_of_what_a_script_reports_numbers_are_kept() -> None:
    room = Room()
    room.call("w-0", generation=5, seen=5)
    values = {"loss": math.nan, "steps": 7, "warm": True, "note": "x", "more": None, "all": [1.0]}
    measured = {"rank": 0, "generation": 5, "step": 7, "values": values}
    room.meeting.hear("w-0", {"type": "beat", "generation": 5, "behind": WELL, "silence": 0, "measured": measured}, 6.0)
    heard = room.meeting.measured
    assert heard is not None
    assert list(heard.values) == ["loss", "steps", "warm"]


def test_patience_may_be_without_end() -> None:
    room = Room()
    room.both()
    for name in PLACES:
        behind = [*WELL[:4], 99.0, math.inf, *WELL[6:]]
        room.meeting.hear(name, {"type": "beat", "generation": 1, "behind": behind, "silence": 0}, 60.0)
    room.meeting.look(61.0)
    assert not room.hangs


@pytest.mark.parametrize(
    "wrong",
    [{"code": "1"}, {"code": 1 << 70}, {"generation": 1.0}, {"why": None}, {"whose": 1}, {"hangs": 1}, {"more": 1}],
)
def test_an_end_that_makes_no_sense_is_none(wrong: dict[str, Any]) -> None:
    room = Room()
    room.both()
    failed = {"type": "failed", "id": "", "generation": 1, "code": 1, "why": "rank 1 exited with 1", **wrong}
    with pytest.raises((ValueError, TypeError, KeyError)):
        room.meeting.hear("w-0", failed, 50.0)
    assert room.meeting.crew.phase is rules.RendezvousPhase.RUNNING


def test_a_member_that_left_well_without_a_leader_is_missed_until_its_end_is_known() -> None:
    room = Room()
    first = room.call("w-0", generation=5, seen=5)
    assert room.meeting.missing() == ["w-1"]
    room.meeting.hear("w-0", {"type": "succeeded", "id": "", "generation": 5}, 2.0)
    assert room.meeting.missing() == ["w-1"]
    room.meeting.feed(rank_events.RanksSucceeded("w-1", 5), 3.0)
    assert (first.words(), room.closed) == (["welcome", "close"], 1)
    assert room.meeting.missing() == []
