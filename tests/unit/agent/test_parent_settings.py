"""Settings from an agent's parent process: restart budget, streams, reports, rank status file."""

import json
import os
import signal
import time

import pytest

from windlass import wire
from windlass.agent import parent_settings
from windlass.agent.event_loop import EventLoop
from windlass.agent.rank_events import RankFailed, RanksStopped, classify_failure
from windlass.agent.ranks.status_file import RankStatusFile
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.state_machine import AgentJoined, EndRun, Peer, RendezvousState, StopRanks

BUDGET = wire.RestartBudget(2, (3,), (9,), 5, 1.0, 300.0, 600.0)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        (1, "user"),
        (-signal.SIGSEGV, "user"),
        (-signal.SIGKILL, "infrastructure"),
        (137, "infrastructure"),
        (3, "infrastructure"),
        (9, "final"),
        (83, "final"),
        (84, "final"),
        (85, "final"),
    ],
)
def test_a_budget_says_which_limit_an_end_counts_against(code, limit):
    assert classify_failure(code, BUDGET) == limit


@pytest.mark.parametrize(
    ("code", "limit"),
    [(1, "user"), (-signal.SIGKILL, "user"), (137, "user"), (83, "uncounted"), (84, "uncounted"), (85, "final")],
)
def test_without_a_budget_signals_count_as_failures_of_the_program(code, limit):
    assert classify_failure(code, None) == limit


def test_a_code_that_the_job_calls_retryable_is_not_left_to_the_launcher():
    assert classify_failure(84, BUDGET._replace(retryable=(84,))) == "infrastructure"


def test_the_settings_are_removed_from_the_environment_of_ranks(tmp_path):
    given = {
        wire.STREAMS: json.dumps([{"out": 4, "err": 5, "log": "/x/0"}]),
        wire.RECORDS: str(tmp_path / "node-0"),
        wire.RESTART_BUDGET: BUDGET.to_json(),
        "MINE": "x",
    }
    taken = parent_settings.take_settings(given)
    assert given == {"MINE": "x"}
    assert (taken.streams[0].log, taken.reports, taken.budget) == ("/x/0", -1, BUDGET)
    assert (tmp_path / "node-0").is_dir()


def test_settings_that_cannot_be_read_are_refused():
    with pytest.raises(ValueError, match="cannot read the settings"):
        parent_settings.take_settings({wire.RESTART_BUDGET: "{}"})


def test_reports_are_lines(tmp_path):
    settings = parent_settings.take_settings({wire.REPORTS: str(tmp_path / "reports")})
    settings.report(wire.RankRecovery(2, 0.25, "rank 1 killed"))
    os.close(settings.reports)
    assert wire.decode((tmp_path / "reports").read_bytes().strip()) == wire.RankRecovery(2, 0.25, "rank 1 killed")


def running(limit):
    rules = state_machine.RendezvousRules(max_infrastructure=limit)
    state, _ = state_machine.step(
        RendezvousState(rules, 0.0),
        AgentJoined(Peer("a", "n1", "", 0, 2, generation=5)),
        0.0,
    )
    assert state.generation == 6, "generations continue over agents"
    return state


def test_failures_of_infrastructure_have_their_own_limit():
    state, [halt] = state_machine.step(running(1), RankFailed("a", 6, -9, "killed", "infrastructure"), 1.0)
    assert isinstance(halt, StopRanks)
    state, [start] = state_machine.step(state, RanksStopped("a", 6), 1.1)
    assert (start.generation, start.restarts) == (7, 0)
    state, _ = state_machine.step(state, RankFailed("a", 7, -9, "killed", "infrastructure"), 2.0)
    assert state_machine.step(state, RanksStopped("a", 7), 2.1)[1] == (EndRun(-9, "killed"),)


def test_a_final_failure_ends_the_run_whatever_restarts_are_left():
    state, _ = state_machine.step(running(9), RankFailed("a", 6, 84, "asked to", "final"), 1.0)
    assert state_machine.step(state, RanksStopped("a", 6), 1.1)[1] == (EndRun(84, "asked to"),)


def test_the_status_file_has_heartbeats_and_telemetry_of_ranks(tmp_path):
    status_file = RankStatusFile(EventLoop(), str(tmp_path))
    status_file.begin(3)
    status_file.record_start(0, 77)
    status_file.record_message(wire.Heartbeat(0, 3, 12, "forward", 40), time.monotonic())
    status_file.record_message(wire.Telemetry(0, 3, 12, {"loss": 1.5}), time.monotonic())
    status_file.close()
    content = json.loads((tmp_path / "ranks.json").read_text())
    [rank] = content["ranks"]
    assert (content["generation"], rank["pid"], rank["step"], rank["phase"]) == (3, 77, 12, "forward")
    assert rank["values"] == {"loss": 1.5}
