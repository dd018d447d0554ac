"""Rendezvous of a gang's agents, led by the operator: memberships, restarts, hangs, and invalid messages."""

from __future__ import annotations

import math
from typing import Any

import pytest

from windlass.agent import rank_events
from windlass.agent.rendezvous import state_machine as rules
from windlass.backends.kubernetes.agents import messages
from windlass.backends.kubernetes.agents.generation_state import pod_of_rank
from windlass.backends.kubernetes.agents.messages import AgentPod
from windlass.backends.kubernetes.agents.rendezvous import Rendezvous, RendezvousCallbacks
from windlass.core.model.job import RestartPolicy

PLACES = {"w-0": 0, "w-1": 1}
SECRET = "of the gang"  # noqa: S105 - no secret of anything


class Connection:
    """Keeps the messages sent to it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.closed = False

    def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    def close(self) -> None:
        self.closed = True

    def take_types(self) -> list[str]:
        """Types of the messages since the last call."""
        types, self.sent = [each["type"] for each in self.sent], []
        return types

    @property
    def generation(self) -> int:
        """The generation of its last start."""
        return int(next(each for each in reversed(self.sent) if each["type"] == "start")["membership"]["generation"])


class RendezvousCase:
    """A rendezvous of two pods, the connections of their agents, and the calls of its callbacks."""

    def __init__(self, *, may_restart: bool = True) -> None:
        self.restarts: list[tuple[int, str]] = []
        self.hangs: list[tuple[int, str]] = []
        self.closed = 0
        callbacks = RendezvousCallbacks(
            lambda _: may_restart, self._restarted, lambda *hang: self.hangs.append(hang), self._closing
        )
        self.rendezvous = Rendezvous(PLACES, 1, callbacks, 0.0, RestartPolicy(backoff_base=2_000), SECRET)

    def connect(self, name: str, at: float = 1.0, **hello: Any) -> Connection:
        connection = Connection()
        usual = {"id": f"agent of {name}", "port": 4000 + PLACES[name], "ranks": 2}
        pod = AgentPod(name, f"n{PLACES[name]}", f"10.0.0.{PLACES[name]}")
        self.rendezvous.join(pod, {**usual, "generation": 0, "seen": 0, "last": None, **hello}, connection, at)
        return connection

    def connect_all(self, **hello: Any) -> list[Connection]:
        return [self.connect(name, **hello) for name in PLACES]

    def fail(self, name: str, generation: int, code: int = 1, at: float = 50.0) -> None:
        failed = {"type": "failed", "agent_id": "", "generation": generation, "code": code}
        failed["reason"] = "rank 1 exited with 1"
        self.rendezvous.receive(name, failed, at)

    def stop(self, name: str, generation: int, at: float = 51.0) -> None:
        self.rendezvous.receive(name, {"type": "stopped", "agent_id": "", "generation": generation, "code": 0}, at)

    def beat(self, name: str, rank: int, beat: int, waited: float, generation: int = 1) -> None:
        behind = [rank, 7, "forward", beat, waited, 10.0, 0.0, [7, beat, rank, "forward"]]
        message = {"type": "beat", "generation": generation, "behind": behind, "silence": 0}
        self.rendezvous.receive(name, message, 60.0)

    def _restarted(self, generation: int, why: str, _failed: object) -> None:
        self.restarts.append((generation, why))

    def _closing(self) -> None:
        self.closed += 1


def test_a_generation_starts_with_all_agents_and_the_store_of_the_first_one() -> None:
    case = RendezvousCase()
    second = case.connect("w-1")
    assert second.take_types() == ["welcome"]
    first = case.connect("w-0")
    membership = first.sent[-1]["membership"]
    nodes = [member["node"] for member in membership["members"]]
    assert (membership["port"], membership["me"], nodes) == (4000, 0, ["n0", "n1"])
    assert second.take_types() == ["start"]


def test_addresses_are_those_of_the_pods_and_agents_learn_the_gangs_secret() -> None:
    case = RendezvousCase()
    first, second = case.connect_all(address="6.6.6.6")
    membership = first.sent[-1]["membership"]
    assert [member["address"] for member in membership["members"]] == ["10.0.0.0", "10.0.0.1"]
    assert first.sent[-1]["secret"] == second.sent[-1]["secret"] == SECRET


def test_the_next_generation_uses_the_new_port_of_the_first_agent() -> None:
    case = RendezvousCase()
    first, second = case.connect_all()
    case.rendezvous.receive("w-0", {"type": "port", "port": 4711}, 2.0)
    case.fail("w-1", 1)
    for name in PLACES:
        case.stop(name, 1)
    assert second.sent[-1]["membership"]["port"] == 4711
    assert [first.generation, second.generation] == [2, 2]
    assert case.restarts == [(2, "rank 1 exited with 1")]


def test_the_second_restart_in_a_row_waits_for_the_backoff_of_the_job() -> None:
    case = RendezvousCase()
    first, _ = case.connect_all()
    for generation, at in ((1, 50.0), (2, 60.0)):
        case.fail("w-1", generation, at=at)
        for name in PLACES:
            case.stop(name, generation, at)
    assert first.take_types()[-1] == "halt"
    case.rendezvous.check_timeouts(62.0)
    assert first.generation == 3


def test_a_lost_connection_stops_no_agent_and_missed_messages_are_repeated() -> None:
    case = RendezvousCase()
    first, second = case.connect_all()
    case.rendezvous.agents.disconnect("w-1", second)
    assert first.take_types() == ["welcome", "start"]
    again = case.connect("w-1")  # it has not started: the message was lost
    assert again.take_types() == ["welcome", "start"]
    once_more = case.connect("w-1", generation=1, seen=1)
    assert once_more.take_types() == ["welcome"]
    assert again.closed


def test_an_agent_that_missed_an_in_place_generation_keeps_its_ranks() -> None:
    case = RendezvousCase()
    first, second = case.connect_all()
    for name in PLACES:
        case.rendezvous.receive(name, {"type": "ready", "agent_id": "", "generation": 1}, 40.0)
    case.rendezvous.agents.disconnect("w-1", second)
    case.fail("w-0", 1)
    assert (first.generation, first.sent[-1]["keep"]) == (2, True)
    again = case.connect("w-1", generation=1, seen=1)
    assert (again.generation, again.sent[-1]["keep"]) == (2, True)


def test_a_restarted_container_has_lost_its_ranks() -> None:
    case = RendezvousCase()
    first, _ = case.connect_all()
    second = case.connect("w-1", id="another", at=40.0)
    assert first.take_types()[-1] == "halt"
    case.stop("w-0", 1)
    assert [first.generation, second.generation] == [2, 2]
    assert case.restarts == [(2, "an agent has come anew")]


def test_a_running_generation_is_adopted_and_ranks_of_another_one_are_stopped() -> None:
    case = RendezvousCase()
    first = case.connect("w-0", generation=5, seen=5)
    stray = case.connect("w-1", generation=4, seen=4)
    assert (first.take_types(), stray.take_types()) == (["welcome"], ["welcome", "halt"])
    case.stop("w-1", 4)
    assert first.take_types() == ["halt"]
    case.stop("w-0", 5)
    assert [first.generation, stray.generation] == [6, 6]


def test_the_last_message_sent_without_a_leader_is_received() -> None:
    case = RendezvousCase()
    failed = {"type": "failed", "agent_id": "", "generation": 5, "code": -9, "reason": "rank 3 killed by SIGKILL"}
    case.connect("w-0", generation=5, seen=5)
    last = case.connect("w-1", generation=5, seen=5, last=failed)
    assert last.take_types() == ["welcome", "halt"]


def test_a_failure_beyond_the_limit_dismisses_all_agents_once_their_ranks_are_gone() -> None:
    case = RendezvousCase(may_restart=False)
    first, second = case.connect_all()
    case.fail("w-1", 1, code=-9)
    case.stop("w-0", 1)
    assert case.closed == 0
    case.stop("w-1", 1)
    assert [connection.sent[-1]["type"] for connection in (first, second)] == ["close", "close"]
    assert (first.sent[-1]["code"], case.closed) == (-9, 1)
    late = case.connect("w-1", generation=0, seen=1)  # it has not received the message
    assert late.take_types() == ["welcome", "close"]


def test_a_run_that_was_over_begins_again_when_kubelets_restart_its_containers() -> None:
    case = RendezvousCase(may_restart=False)
    case.connect_all()
    case.fail("w-1", 1)
    for name in PLACES:
        case.stop(name, 1)
    again = [case.connect(name, at=90.0, id=f"another of {name}") for name in PLACES]
    assert [connection.generation for connection in again] == [2, 2]


def test_the_rank_furthest_behind_hangs_once_all_agents_have_reported() -> None:
    case = RendezvousCase()
    first, second = case.connect_all()
    case.beat("w-1", 3, beat=20, waited=12.0)
    case.rendezvous.check_timeouts(61.0)
    assert not case.hangs, "w-0 has not reported, and may have the hanging rank"
    case.beat("w-0", 0, beat=21, waited=11.0)
    case.rendezvous.check_timeouts(62.0)
    ((rank, why),) = case.hangs
    assert (rank, pod_of_rank(case.rendezvous.state, rank)) == (3, "w-1")
    assert why.startswith("rank 3 is in forward of step 7 for 12.0 s")
    assert [connection.sent[-1] for connection in (first, second)] == [{"type": "dump_stacks", "rank": 3}] * 2
    case.rendezvous.check_timeouts(63.0)
    assert second.take_types()[-1] == "halt"


def test_a_heartbeat_of_an_old_generation_reports_no_hang() -> None:
    case = RendezvousCase()
    case.connect_all()
    for name, rank in (("w-0", 0), ("w-1", 3)):
        case.beat(name, rank, beat=20, waited=99.0, generation=9)
    case.rendezvous.check_timeouts(61.0)
    assert not case.hangs


@pytest.mark.parametrize(
    "wrong", [{"port": 0}, {"ranks": 0}, {"ranks": "2"}, {"port": "x"}, {"seen": 1 << 60}, {"generation": 1 << 60}]
)
def test_an_invalid_hello_adds_no_agent(wrong: dict[str, Any]) -> None:
    case = RendezvousCase()
    with pytest.raises(ValueError, match=r".*"):
        case.connect("w-0", **wrong)
    assert not list(case.rendezvous.agents)


VALID = [0, 7, "forward", 21, 1.0, 10.0, 0.0, [7, 21, 0, "forward"]]


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
def test_an_invalid_heartbeat_does_not_disturb_hang_detection(place: int, wrong: Any) -> None:
    case = RendezvousCase()
    case.connect_all()
    case.beat("w-1", 3, beat=20, waited=1.0)
    behind = [*VALID[:place], wrong, *VALID[place + 1 :]]
    with pytest.raises((ValueError, TypeError)):
        case.rendezvous.receive("w-0", {"type": "beat", "generation": 1, "behind": behind, "silence": 0}, 60.0)
    case.rendezvous.check_timeouts(61.0)
    assert not case.hangs


def test_metrics_of_a_script_that_are_numbers_are_kept() -> None:
    case = RendezvousCase()
    case.connect("w-0", generation=5, seen=5)
    values = {"loss": math.nan, "steps": 7, "warm": True, "note": "x", "more": None, "all": [1.0]}
    measured = {"rank": 0, "generation": 5, "step": 7, "values": values}
    case.rendezvous.receive(
        "w-0", {"type": "beat", "generation": 5, "behind": VALID, "silence": 0, "measured": measured}, 6.0
    )
    telemetry = case.rendezvous.telemetry
    assert telemetry is not None
    assert list(telemetry.values) == ["loss", "steps", "warm"]


def test_the_first_64_of_many_metrics_are_kept() -> None:
    values = {f"metric {at}": 1.0 for at in range(60_000)}
    telemetry = messages.parse_telemetry({"rank": 0, "generation": 5, "step": 7, "values": values})
    assert telemetry is not None
    assert list(telemetry.values) == [f"metric {at}" for at in range(64)]


def test_the_limit_of_a_phase_may_be_infinite() -> None:
    case = RendezvousCase()
    case.connect_all()
    for name in PLACES:
        behind = [*VALID[:4], 99.0, math.inf, *VALID[6:]]
        case.rendezvous.receive(name, {"type": "beat", "generation": 1, "behind": behind, "silence": 0}, 60.0)
    case.rendezvous.check_timeouts(61.0)
    assert not case.hangs


@pytest.mark.parametrize(
    "wrong",
    [{"code": "1"}, {"code": 1 << 70}, {"generation": 1.0}, {"reason": None}, {"whose": 1}, {"hangs": 1}, {"more": 1}],
)
def test_an_invalid_failure_message_is_rejected(wrong: dict[str, Any]) -> None:
    case = RendezvousCase()
    case.connect_all()
    failed = {"type": "failed", "agent_id": "", "generation": 1, "code": 1, "reason": "rank 1 exited with 1", **wrong}
    with pytest.raises((ValueError, TypeError, KeyError)):
        case.rendezvous.receive("w-0", failed, 50.0)
    assert case.rendezvous.state.phase is rules.RendezvousPhase.RUNNING


def test_a_member_that_succeeded_without_a_leader_is_absent_until_its_end_is_known() -> None:
    case = RendezvousCase()
    first = case.connect("w-0", generation=5, seen=5)
    assert case.rendezvous.absent_members() == ["w-1"]
    case.rendezvous.receive("w-0", {"type": "succeeded", "agent_id": "", "generation": 5}, 2.0)
    assert case.rendezvous.absent_members() == ["w-1"]
    case.rendezvous.handle(rank_events.RanksSucceeded("w-1", 5), 3.0)
    assert (first.take_types(), case.closed) == (["welcome", "close"], 1)
    assert case.rendezvous.absent_members() == []
