"""Logs of ranks that wait: the verdict names the rank that is missing, the operation, and its sequence number."""

import io
from functools import partial

from windlass.diagnose.diagnosis import Advice, Certainty, RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource

GLOO_TIMEOUT = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/job/train.py", line 16, in <module>
[rank0]:     dist.all_reduce(gradients)
[rank0]:   File "/env/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper
[rank0]:     return func(*args, **kwargs)
[rank0]:   File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
[rank0]:     work.wait()
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] \
Timed out waiting 6000ms for recv operation to complete
"""
GLOO_LOSS = """\
[rank0]:   File "/env/site-packages/torch/distributed/distributed_c10d.py", line 4821, in barrier
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] \
Connection closed by peer [127.0.0.1]:56548. This is typically caused by a remote worker crashing.
"""
TORCHRUN_OF_TIMEOUT = """\
W1127 04:13:22.233000 97 api.py:1028] Sending process 43 closing signal SIGTERM
E1127 04:13:22.304000 97 api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 42)
Failures:
[1]:
  time      : 2026-11-27_04:13:22
  host      : n1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 43)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_04:13:22
  host      : n1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 42)
"""
TORCHRUN_OF_LOSS = """\
E1127 04:13:31.336000 88 api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 60)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_04:13:31
  host      : n1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 60)
"""


def log(name: str, text: str) -> LogSource:
    return LogSource(name, partial(io.BytesIO, text.encode()))


def verdict_of(*logs: LogSource, ranks: int | None = None) -> RootCause:
    verdict = diagnose(Evidence(logs, ranks)).verdict
    assert verdict is not None
    return verdict


def work_of(rank: int, enqueued: int, completed: int, group: str = "ID 0 PG GUID 0(default_pg)") -> str:
    """The line by which the heartbeat monitor of each rank answers the timeout of another one."""
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1884] [PG {group} Rank {rank}] Received a dump signal due "
        f"to a collective timeout from rank 0 and we will try our best to dump the debug info. "
        f"Last enqueued NCCL work: "
        f"{enqueued}, last completed NCCL work: {completed}.\n"
    )


def timeout_of(rank: int, seq: int) -> str:
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600012 ms.\n"
    )


def test_torchrun_tells_of_the_rank_that_a_gloo_timeout_waited_for() -> None:
    verdict = verdict_of(log("train.log", GLOO_TIMEOUT + TORCHRUN_OF_TIMEOUT))
    assert (verdict.rule, verdict.cause, verdict.rank) == ("gloo-timeout", "nccl-laggard-rank", 1)
    assert verdict.text.startswith("Rank 0 waited 6000 ms in a collective (all_reduce) for another rank")
    assert "Rank 1 is the late one" in verdict.text


def test_a_rank_that_came_late_and_lost_the_connection_is_the_late_one() -> None:
    late = GLOO_LOSS.replace("rank0", "rank1")
    verdict = verdict_of(log("rank0.log", GLOO_TIMEOUT), log("rank1.log", late))
    assert (verdict.rule, verdict.rank) == ("gloo-timeout", 1)
    assert verdict.evidence[-1].source == "rank1.log"


def test_the_rank_that_left_before_a_lost_connection_is_named_with_its_last_line() -> None:
    verdict = verdict_of(log("rank0.log", GLOO_LOSS), log("rank1.log", "step 11\nno more samples\n"))
    assert (verdict.cause, verdict.rank, verdict.evidence[-1].text) == ("peer-died", 1, "no more samples")
    assert verdict.text.startswith("gloo on rank 0 lost the connection to another rank in barrier, which ended first.")
    assert "Rank 1 ended first" in verdict.text


def test_the_number_of_ranks_of_the_job_names_a_missing_rank_without_a_log() -> None:
    assert verdict_of(log("rank0.log", GLOO_LOSS + TORCHRUN_OF_LOSS), ranks=2).rank == 1


def test_an_exit_code_that_a_lost_connection_explains_is_no_cause() -> None:
    verdict = verdict_of(log("train.log", GLOO_LOSS + TORCHRUN_OF_LOSS))
    assert (verdict.rule, verdict.alternatives) == ("gloo-peer-closed", ())


def test_an_exit_code_of_the_other_rank_explains_a_lost_connection() -> None:
    verdict = verdict_of(
        log("train.log", GLOO_LOSS + TORCHRUN_OF_LOSS.replace("0 (local_rank: 0)", "1 (local_rank: 1)"))
    )
    assert (verdict.rule, verdict.cause) == ("exit-status", "user-code-error")


def test_without_a_line_of_the_missing_rank_the_verdict_says_so_and_names_the_next_command() -> None:
    verdict = verdict_of(log("rank0.log", GLOO_TIMEOUT))
    assert "No line tells which rank is missing" in verdict.text
    assert verdict.command.startswith("windlass doctor LOGS")
    assert "stack of each rank" in verdict.decide


def test_of_several_silent_ranks_each_may_be_the_missing_one() -> None:
    assert "One of ranks 1, 2, 3 is missing" in verdict_of(log("rank0.log", GLOO_TIMEOUT), ranks=4).text


def test_a_traceback_far_above_the_timeout_does_not_name_its_operation() -> None:
    head, _, message = GLOO_TIMEOUT.partition("[rank0]: RuntimeError")
    text = head + "step 1 done\n" * 80 + f"[rank0]: RuntimeError{message}"
    assert verdict_of(log("rank0.log", text)).text.startswith("Rank 0 waited 6000 ms in a collective for another rank")


def test_the_rank_with_the_lowest_enqueued_work_lags() -> None:
    waiting = log("rank0.log", timeout_of(0, 13) + work_of(0, 13, 12))
    verdict = verdict_of(waiting, log("rank1.log", work_of(1, 14, 12)), log("rank2.log", work_of(2, 12, 12)))
    assert (verdict.cause, verdict.rank, verdict.certainty) == ("nccl-laggard-rank", 2, Certainty.LIKELY)
    assert verdict.text == (
        "A collective did not complete. Rank 2 is the late one: its last enqueued work is number 12, and the others "
        "wait for number 13."
    )
    assert verdict.evidence[-1].text == work_of(2, 12, 12).strip()


def test_a_proven_late_rank_refutes_a_fault_of_the_network_in_the_first_collective() -> None:
    spans = "n1:5:66 [0] NCCL INFO comm 0x55a4d8f0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0\n"
    first = log("rank0.log", spans + timeout_of(0, 1) + work_of(0, 1, 0))
    assert verdict_of(first).cause == "nccl-firewall-or-route"
    late = verdict_of(first, log("rank1.log", work_of(1, 0, 0)))
    assert (late.rule, late.cause, late.rank) == ("nccl-watchdog-timeout", "nccl-laggard-rank", 1)


def test_several_ranks_may_lag_together() -> None:
    logs = [log(f"rank{rank}.log", work_of(rank, 40, 40)) for rank in (2, 3)]
    verdict = verdict_of(log("rank0.log", timeout_of(0, 41) + work_of(0, 41, 40)), *logs)
    assert "Ranks 2, 3 are the late ones: their last enqueued work is number 40" in verdict.text
    assert verdict.rank is None


def test_a_rank_that_lags_because_it_waits_in_another_group_is_not_blamed() -> None:
    rows, columns = "ID 1 PG GUID 3(rows)", "ID 2 PG GUID 7(columns)"
    stuck = work_of(1, 8, 8, rows)
    between = timeout_of(0, 9) + work_of(0, 9, 8, rows) + work_of(0, 5, 5, columns)
    behind = work_of(2, 6, 5, columns)
    verdict = verdict_of(log("rank0.log", between), log("rank1.log", stuck), log("rank2.log", behind))
    assert (verdict.rank, "wait for number 9" in verdict.text) == (1, True)


def test_groups_of_one_local_id_are_kept_apart_by_their_guid() -> None:
    one, other = "ID 1 PG GUID 3(rows)", "ID 1 PG GUID 4(rows)"
    logs = [log("rank0.log", timeout_of(0, 9) + work_of(0, 9, 8, one)), log("rank2.log", work_of(2, 5, 5, other))]
    assert "enqueued" not in verdict_of(*logs).text


def test_no_rank_lags_where_all_have_enqueued_the_work_that_does_not_complete() -> None:
    logs = [log("rank0.log", timeout_of(0, 13) + work_of(0, 13, 12)), log("rank1.log", work_of(1, 15, 12))]
    assert "enqueued" not in verdict_of(*logs).text


def test_older_versions_of_torch_state_the_work_in_the_line_of_the_timeout() -> None:
    lines = [
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank {rank}] Timeout at NCCL work: {work}, "
        f"last enqueued NCCL work: {work}, last completed NCCL work: {done}.\n"
        for rank, work, done in ((0, 31, 30), (1, 30, 29), (2, 31, 30))
    ]
    verdict = verdict_of(log("train.log", "".join(lines)))
    assert (verdict.rank, "wait for number 31" in verdict.text) == (1, True)


def test_processes_that_have_all_joined_are_not_started_again_and_none_of_them_is_missing() -> None:
    of_rank_0 = "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 2/4 clients joined.\n"
    of_rank_1 = "torch.distributed.DistStoreError: wait timeout after 8000ms, keys: /default_pg/0//cpu//0/0\n"
    verdict = verdict_of(log("ws2.0.log", of_rank_0), log("ws2.1.log", of_rank_1))
    assert verdict.text.startswith(
        "Not all processes connected to the store of rank 0: 2 of 4. The processes of all logs"
    )
    assert (verdict.advice, verdict.alternatives) == (Advice.STOP, ())
    assert "WORLD_SIZE" in verdict.command
    one_of_them = verdict_of(log("ws2.0.log", of_rank_0))
    assert (one_of_them.text, one_of_them.advice) == (
        "Not all processes connected to the store of rank 0: 2 of 4.",
        Advice.RETRY,
    )
