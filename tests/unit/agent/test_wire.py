"""Messages between ranks, agents and controllers, and the heartbeat ring."""

import signal
import threading

import pytest

from windlass import wire
from windlass.agent.ranks import environment

MEMBERS = (wire.MemberNode("n1", "10.0.0.1", 2), wire.MemberNode("n2", "10.0.0.2", 3))


@pytest.mark.parametrize(
    "message",
    [
        wire.Hello(3, 1, 4711, reforms=True),
        wire.Heartbeat(3, 1, 12, "backward", 63),
        wire.Telemetry(3, 1, 12, {"loss": 1.5, "backward": 0.2}),
        wire.Membership(2, MEMBERS, 29500, "10.0.0.2", me=1, restarts=1),
        wire.Dump("/tmp/x"),
        wire.RankFailure(2, "failed", 3, -9, "rank 3 killed by SIGKILL"),
    ],
)
def test_a_decoded_message_equals_the_encoded_one(message):
    assert wire.decode(wire.encode(message)) == message


def test_fields_of_a_newer_sender_are_left_out():
    assert wire.decode(b'{"type": "dump", "folder": "x", "since": 2030}') == wire.Dump("x")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"7", b"[]", b"{}", b'{"type": "sesame"}', b'{"type": "heartbeat", "rank": 1}', b'{"type": []}',
        b'{"type": "heartbeat", "rank": "1", "generation": 1, "step": 1, "phase": "x", "beat": 1}',
        b'{"type": "membership", "generation": 1, "members": [{}], "port": 1}',
    ],
)  # fmt: skip
def test_other_data_are_refused(data):
    with pytest.raises(ValueError, match=r"not a message of Windlass|Expecting"):
        wire.decode(data)


def test_ranks_are_numbered_after_those_of_the_members_before():
    places = environment.rank_positions(wire.Membership(1, MEMBERS, 1, me=1))
    assert [(place.rank, place.local_rank, place.world_size, place.group_rank) for place in places] == [
        (2, 0, 5, 1), (3, 1, 5, 1), (4, 2, 5, 1),
    ]  # fmt: skip


def settings(**more):
    return environment.RankSettings("r1", "default", 3, agent_store=True, socket="/s", dump_dir="/d", **more)


def test_a_rank_gets_the_variables_of_torchruns_workers():
    membership = wire.Membership(3, MEMBERS, 29500, me=1)
    variables = environment.rank_variables(
        environment.rank_positions(membership)[0], membership, settings(), "/e.json", {}
    )
    assert (variables["RANK"], variables["LOCAL_RANK"], variables["WORLD_SIZE"], variables["GROUP_RANK"]) == (
        "2",
        "0",
        "5",
        "1",
    )
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("10.0.0.1", "29500")
    assert (variables["TORCHELASTIC_RESTART_COUNT"], variables["TORCHELASTIC_USE_AGENT_STORE"]) == ("2", "True")


def test_with_virtual_local_ranks_each_sees_its_own_gpu_as_the_first():
    membership = wire.Membership(1, MEMBERS, 1, me=0)
    places = environment.rank_positions(membership)
    seen = [
        environment.rank_variables(
            p, membership, settings(virtual_local_rank=True), "", {"CUDA_VISIBLE_DEVICES": "4, 6"}
        )
        for p in places
    ]
    assert [(each["LOCAL_RANK"], each["CUDA_VISIBLE_DEVICES"]) for each in seen] == [("0", "4"), ("0", "6")]
    with pytest.raises(ValueError, match="has no GPU of its own"):
        environment.rank_variables(
            places[1], membership, settings(virtual_local_rank=True), "", {"CUDA_VISIBLE_DEVICES": "4"}
        )


def beats(first, end):
    return [(wire.Heartbeat(3, 1, number // 12, "backward", number), number / 8) for number in range(first, end)]


def noted_in_turn(track, each):
    for heartbeat, at in each:
        wire.write_heartbeat(track, heartbeat, at)


def test_heartbeats_of_a_ring_are_read_once_and_in_order():
    track = bytearray(wire.RING_SIZE)
    assert wire.read_heartbeats(track, 0) == (0, [])
    noted_in_turn(track, beats(0, 5))
    assert wire.read_heartbeats(track, 0) == (5, beats(0, 5))
    noted_in_turn(track, beats(5, 7))
    assert wire.read_heartbeats(track, 5) == (7, beats(5, 7))
    assert wire.read_heartbeats(track, 7) == (7, [])


def test_a_slow_reader_of_a_ring_gets_the_newest_heartbeats():
    track = bytearray(wire.RING_SIZE)
    noted_in_turn(track, beats(0, 20_000))
    count, found = wire.read_heartbeats(track, 3)
    assert count == 20_000
    assert len(found) > 1000
    assert found == beats(20_000 - len(found), 20_000)


@pytest.mark.parametrize(
    ("code", "by_signal", "kind", "reason", "fatal"),
    [
        (83, None, wire.PREEMPTION, "Preempted", False),
        (84, None, wire.INFRASTRUCTURE, "AskedForRetry", False),
        (85, None, wire.USER, "AskedForNoRetry", True),
        (None, signal.SIGKILL, wire.INFRASTRUCTURE, "Signal", False),
        (128 + signal.SIGTERM, None, wire.INFRASTRUCTURE, "Signal", False),
        (None, signal.SIGSEGV, wire.USER, "Signal", False),
        (128 + signal.SIGABRT, None, wire.USER, "Signal", False),
        (1, None, wire.USER, "ExitCode", False),
        (128, None, wire.USER, "ExitCode", False),
        (200, None, wire.USER, "ExitCode", False),
        (None, None, wire.INFRASTRUCTURE, "Lost", False),
        (3, None, wire.INFRASTRUCTURE, "RetryableExitCode", False),
        (4, None, wire.USER, "FatalExitCode", True),
        (5, None, wire.USER, "FatalExitCode", True),
    ],
)
def test_an_end_is_classified_by_its_code_or_signal(code, by_signal, kind, reason, fatal):
    found = wire.classify_end(code, by_signal, retryable=(3, 5), fatal=(4, 5))
    assert (found.kind, found.reason, found.fatal) == (kind, reason, fatal)


def test_exit_codes_that_a_job_lists_precede_the_programs_request():
    assert wire.classify_end(85, None, retryable=(85,)) == wire.RETRYABLE_EXIT_CODE
    assert wire.classify_end(83, None, fatal=(83,)) == wire.FATAL_EXIT_CODE


def test_the_error_of_a_process_without_memory_for_a_timer_stays_its_error(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    def fail():
        try:
            raise MemoryError
        finally:
            wire.exit_after_timeout(1).cancel()

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(MemoryError):
        fail()
