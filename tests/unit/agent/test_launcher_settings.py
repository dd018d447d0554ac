"""What an agent is given by whoever started it, and what it leaves to him."""

import json
import os
import signal
import time

import pytest

from windlass import wire
from windlass.agent import launcher_settings
from windlass.agent.event_loop import EventLoop
from windlass.agent.rank_events import RankFailed, RanksStopped
from windlass.agent.ranks.status_file import RankStatusFile
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.state_machine import AgentJoined, EndRun, Peer, Rendezvous, StopRanks

FORGIVES = launcher_settings.Forgives(2, frozenset({3}), frozenset({83, 84, 9}), 5, (1.0, 300.0, 600.0))


@pytest.mark.parametrize(
    ("code", "whose"),
    [(1, ""), (-signal.SIGSEGV, ""), (-signal.SIGKILL, "machine"), (137, "machine"), (3, "machine"), (83, "final")],
)
def test_whose_fault_an_end_is(code, whose):
    assert FORGIVES.whose(code) == whose


def test_it_is_taken_out_of_the_environment_that_ranks_inherit(tmp_path):
    told = {"machine": 2, "retryable": [3], "final": [83, 84, 9], "crew": 5, "backoff": [1, 300, 600]}
    given = {
        wire.STREAMS: json.dumps([{"out": 4, "err": 5, "log": "/x/0"}]),
        wire.RECORDS: str(tmp_path / "node-0"),
        wire.FORGIVES: json.dumps(told),
        "MINE": "x",
    }
    taken = launcher_settings.take_settings(given)
    assert given == {"MINE": "x"}
    assert (taken.streams[0].log, taken.reports, taken.forgives) == ("/x/0", -1, FORGIVES)
    assert (tmp_path / "node-0").is_dir()


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="makes no sense"):
        launcher_settings.take_settings({wire.FORGIVES: "{}"})


def test_reports_are_lines(tmp_path):
    told = launcher_settings.take_settings({wire.REPORTS: str(tmp_path / "reports")})
    told.say(wire.Recovered(2, 0.25, "rank 1 killed"))
    os.close(told.reports)
    assert wire.decode((tmp_path / "reports").read_bytes().strip()) == wire.Recovered(2, 0.25, "rank 1 killed")


def running(machine):
    rules = state_machine.Rules(machine=machine)
    state, _ = state_machine.step(
        Rendezvous(rules, 0.0),
        AgentJoined(Peer("a", "n1", "", 0, 2, generation=5)),
        0.0,
    )
    assert state.generation == 6, "the count goes on over agents"
    return state


def test_failures_of_machines_have_a_limit_of_their_own():
    state, [halt] = state_machine.step(running(1), RankFailed("a", 6, -9, "killed", "machine"), 1.0)
    assert isinstance(halt, StopRanks)
    state, [start] = state_machine.step(state, RanksStopped("a", 6), 1.1)
    assert (start.generation, start.restarts) == (7, 0)
    state, _ = state_machine.step(state, RankFailed("a", 7, -9, "killed", "machine"), 2.0)
    assert state_machine.step(state, RanksStopped("a", 7), 2.1)[1] == (EndRun(-9, "killed"),)


def test_a_final_code_ends_the_run_whatever_is_left():
    state, _ = state_machine.step(running(9), RankFailed("a", 6, 84, "asked to", "final"), 1.0)
    assert state_machine.step(state, RanksStopped("a", 6), 1.1)[1] == (EndRun(84, "asked to"),)


def test_the_board_has_what_ranks_say_of_themselves(tmp_path):
    board = RankStatusFile(EventLoop(), str(tmp_path))
    board.begin(3)
    board.started(0, 77)
    board.hear(wire.Heartbeat(0, 3, 12, "forward", 40), time.monotonic())
    board.hear(wire.Telemetry(0, 3, 12, {"loss": 1.5}), time.monotonic())
    board.close()
    said = json.loads((tmp_path / "board.json").read_text())
    [rank] = said["ranks"]
    assert (said["generation"], rank["pid"], rank["step"], rank["phase"]) == (3, 77, 12, "forward")
    assert rank["values"] == {"loss": 1.5}
