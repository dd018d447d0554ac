"""The engine names the rank, the node and the cause, keeps order and clocks apart, and says what it has not seen."""

import gzip
import io
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.diagnose.diagnosis import Advice, Certainty, EvidenceLine, RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, Fact, LogSource
from windlass.diagnose.failures.reports import markdown_report, text_report

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
DISK_FULL = "OSError: [Errno 28] No space left on device: '/ckpt/step_200.pt'"


def log(name: str, *lines: str, **known: Any) -> LogSource:
    return LogSource(name, partial(io.BytesIO, "\n".join(lines).encode()), **known)


def timeout_of(rank: int, seq: int = 812, clock: str = "") -> str:
    return (
        f"{clock}[rank{rank}]:[E ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 ms."
    )


def verdict_of(*logs: LogSource, **more: Any) -> RootCause:
    verdict = diagnose(Evidence(logs, **more)).verdict
    assert verdict is not None
    return verdict


def test_a_verdict_has_its_line_rank_and_advice() -> None:
    verdict = verdict_of(log("rank3.log", "step 1", "step 2", OUT_OF_MEMORY))
    assert (verdict.cause, verdict.rank, verdict.certainty) == ("cuda-out-of-memory", 3, Certainty.CERTAIN)
    assert verdict.evidence == (EvidenceLine("rank3.log", 3, OUT_OF_MEMORY),)
    assert verdict.text == "Rank 3 ran out of GPU memory: it asked for 2.50 GiB."
    assert verdict.advice is Advice.STOP


def test_an_exception_has_the_frame_of_the_program_as_evidence() -> None:
    lines = (
        "step 1",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/home/ann/train.py", line 13, in <module>',
        "[rank0]: step 2",
        '[rank1]:     raise ValueError("the shard 7 is damaged")',
        '[rank1]:   File "/env/lib/python3.11/site-packages/torch/utils/data.py", line 88, in fetch',
        "[rank1]:     return self.samples[index]",
        "[rank1]:            ~~~~~~~~~~~~^^^^^^^",
        "[rank1]: ValueError: the shard 7 is damaged",
    )
    evidence = verdict_of(log("all.log", *lines)).evidence
    assert [(line.line, line.text) for line in evidence] == [
        (9, "[rank1]: ValueError: the shard 7 is damaged"),
        (3, 'File "/home/ann/train.py", line 13, in <module>'),
    ]


def test_a_traceback_that_the_program_has_survived_is_no_evidence_of_a_later_error() -> None:
    caught = ("Traceback (most recent call last):", '  File "a.py", line 2, in load', "OSError: retried")
    evidence = verdict_of(log("rank0.log", *caught, *["step"] * 5, "ValueError: the shard 7 is damaged")).evidence
    assert [line.text for line in evidence] == ["ValueError: the shard 7 is damaged", "OSError: retried"]


def test_a_message_that_every_agent_prints_is_evidence_once() -> None:
    text = "windlass agent: the run has failed: rank 1 (pid 20) killed by SIGSEGV"
    agents = [log(f"agent {number} err", f"2026-01-01T00:00:0{number}Z {text}") for number in (0, 1)]
    assert [line.source for line in verdict_of(*agents).evidence] == ["agent 0 err"]


def test_without_a_known_rank_the_text_says_so() -> None:
    assert verdict_of(log("train.log", OUT_OF_MEMORY)).text == "A rank ran out of GPU memory: it asked for 2.50 GiB."


def test_the_rank_that_does_not_report_the_timeout_is_the_late_one() -> None:
    verdict = verdict_of(*(log(f"rank{rank}.log", timeout_of(rank)) for rank in (0, 1, 3)), expected_ranks=4)
    assert (verdict.cause, verdict.rank) == ("nccl-laggard-rank", 2)
    assert "Rank 2 is the late one: all other ranks report the timeout" in verdict.text


def test_the_last_line_of_the_late_rank_tells_what_it_was_doing() -> None:
    reports = [log(f"rank{rank}.log", timeout_of(rank)) for rank in (0, 1, 3)]
    saving = verdict_of(*reports, log("rank2.log", "step 811", "saving checkpoint to /ckpt/step_800"))
    loading = verdict_of(*reports, log("rank2.log", "step 811", "data: waiting to fetch shard 17"))
    assert (saving.cause, saving.rank) == ("storage-slow-or-hung", 2)
    assert (loading.cause, loading.rank) == ("dataloader-stuck", 2)
    assert loading.evidence[-1].text == "data: waiting to fetch shard 17"


def test_the_rank_in_an_earlier_collective_is_the_late_one() -> None:
    numbers = {0: 812, 1: 812, 2: 811, 3: 812}
    verdict = verdict_of(*(log(f"rank{rank}.log", timeout_of(rank, seq)) for rank, seq in numbers.items()))
    assert verdict.rank == 2


def test_the_last_line_of_the_late_rank_is_found_in_a_log_of_all_ranks() -> None:
    saving = "[rank0]: saving checkpoint step 5000 to /mnt/nfs/run"
    verdict = verdict_of(log("slurm.out", saving, *(timeout_of(rank) for rank in (1, 2))))
    assert (verdict.cause, verdict.rank) == ("storage-slow-or-hung", 0)


def test_of_two_ranks_the_one_in_the_earlier_collective_is_late_and_other_operations_are_another_cause() -> None:
    gather = timeout_of(1, 3009).replace("ALLREDUCE", "ALLGATHER")
    verdict = verdict_of(log("rank0.log", timeout_of(0, 3012)), log("rank1.log", gather))
    assert verdict.rank == 1
    assert [other.cause for other in verdict.alternatives] == ["nccl-divergent-collectives"]


def test_different_operations_of_one_number_are_a_divergence() -> None:
    gather = timeout_of(1).replace("ALLREDUCE", "ALLGATHER")
    verdict = verdict_of(log("rank0.log", timeout_of(0)), log("rank1.log", gather))
    assert verdict.cause == "nccl-divergent-collectives"
    assert "rank 0 waits in ALLREDUCE number 812, rank 1 waits in ALLGATHER number 812" in verdict.text


def test_other_sizes_of_one_number_are_a_divergence() -> None:
    one, other = (timeout_of(rank).replace("NumelIn=1", f"NumelIn={8 << rank}") for rank in (0, 1))
    verdict = verdict_of(log("rank0.log", one), log("rank1.log", other))
    assert verdict.cause == "nccl-divergent-collectives"
    assert "rank 1 waits in ALLREDUCE number 812 of 16 elements" in verdict.text


def test_no_rank_is_late_where_all_ranks_of_the_job_timed_out_in_one_collective() -> None:
    logs = [log(f"rank{rank}.log", timeout_of(rank)) for rank in range(4)]
    assert verdict_of(*logs).cause == "nccl-transport-stalled"
    assert verdict_of(*logs, expected_ranks=8).cause == "nccl-laggard-rank"


def test_the_summary_of_torchrun_names_rank_and_host_of_a_killed_process() -> None:
    summary = ("  host      : node-7", "  rank      : 3 (local_rank: 3)", "  exitcode  : -9 (pid: 4711)")
    verdict = verdict_of(log("launcher.log", "Root Cause (first observed failure):", "[0]:", *summary))
    assert (verdict.rule, verdict.rank, verdict.node) == ("signal-9", 3, "node-7")


def test_the_memory_of_a_container_of_a_node_and_of_ray_are_told_apart() -> None:
    container = verdict_of(
        log(
            "dmesg.log",
            "memory: usage 67108864kB, limit 67108864kB, failcnt 9",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=pod1,task=python,pid=812,uid=0",
        )
    )
    node = verdict_of(log("dmesg.log", "Out of memory: Killed process 1187 (python3) total-vm:91234512kB"))
    ray = verdict_of(log("ray.log", "Memory on the node (IP: 10.0.0.9, ID: ab12) where the task was running was 60GB"))
    assert "limit of its container was used up: 67108864kB" in container.text
    assert "memory of a node was used up" in node.text
    assert (ray.certainty, "memory monitor of Ray" in ray.text, "10.0.0.9" in ray.text) == (
        Certainty.LIKELY,
        True,
        True,
    )


def test_a_name_that_does_not_resolve_precedes_the_timeout_of_its_connection() -> None:
    refused = "The client socket has timed out after 60000ms while trying to connect to (train-0.train, 29500)."
    unresolved = "[W socket.cpp:764] [c10d] The IPv6 network addresses of (train-0.train, 29500) cannot be retrieved "
    verdict = verdict_of(log("rank1.log", unresolved + "(gai error: -2 - Name or service not known).", refused))
    assert verdict.cause == "rendezvous-dns"


def test_of_two_failures_of_one_strength_the_earlier_is_the_verdict() -> None:
    first = log("rank0.log", f"2026-03-02 11:20:05 {DISK_FULL}")
    second = log("rank1.log", f"2026-03-02 11:25:00 {OUT_OF_MEMORY}")
    verdict = verdict_of(second, first)
    assert verdict.cause == "disk-full"
    assert verdict.certainty is Certainty.LIKELY
    assert [other.cause for other in verdict.alternatives] == ["cuda-out-of-memory"]


def test_the_bare_end_of_a_process_is_no_other_cause_beside_a_certain_one() -> None:
    verdict = verdict_of(
        log("rank1.log", "ModuleNotFoundError: No module named 'einops'", "rank 1 (pid 8) exited with 1")
    )
    assert (verdict.rule, verdict.certainty, verdict.alternatives) == ("package-missing", Certainty.CERTAIN, ())


def test_a_shortened_line_of_evidence_ends_with_an_ellipsis() -> None:
    line = verdict_of(log("rank0.log", f"{DISK_FULL} {'x' * 500}")).evidence[0].text
    assert (len(line), line[-2:]) == (400, "x…")


def test_time_outs_beside_status_12_blame_the_peer_and_not_the_gid() -> None:
    unacknowledged = (
        "NCCL WARN NET/IB: Got completion from peer 10.8.0.2<37012> with status=12 opcode=0 len=0 vendor err 129"
    )
    timed_out = "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1"
    assert verdict_of(log("rank0.log", timed_out)).rule == "nccl-ib-gid"
    verdict = verdict_of(log("rank0.log", timed_out, unacknowledged))
    assert (verdict.rule, verdict.alternatives) == ("nccl-ib-peer-unreachable", ())


def test_the_key_of_a_store_names_the_rank_that_never_came() -> None:
    waits = "torch.distributed.DistStoreError: wait timeout after 30000ms, keys: /default_pg/0//cpu//0/2"
    verdict = verdict_of(log("rank0.log", f"[rank0]: {waits}"))
    assert verdict.rule == "store-key-of-missing-rank"
    assert verdict.text.startswith(
        "A rank never came to the process group: rank 2. Fewer ranks were started than WORLD_SIZE"
    )


def test_clocks_that_are_hours_apart_are_aligned_by_a_shared_timeout() -> None:
    ahead = log("rank0.log", timeout_of(0, clock="2026-03-02 17:20:00 "), f"2026-03-02 17:20:30 {DISK_FULL}")
    right = log("rank1.log", f"2026-03-02 11:19:00 {OUT_OF_MEMORY}", timeout_of(1, clock="2026-03-02 11:20:00 "))
    late = log("rank2.log", f"2026-03-02 06:20:40 {DISK_FULL}", timeout_of(2, clock="2026-03-02 06:20:00 "))
    assert verdict_of(ahead, right, late).cause == "cuda-out-of-memory"


def test_only_the_latest_attempt_is_explained() -> None:
    old = log("rank0.log", OUT_OF_MEMORY, attempt=1)
    new = log("rank0-2.log", DISK_FULL, attempt=2)
    assert verdict_of(old, new).cause == "disk-full"


def test_a_failure_that_the_program_survived_is_not_the_first_verdict() -> None:
    progress = [f"step {step} loss 2.1" for step in range(1_000)]
    verdict = verdict_of(log("rank0.log", f"warning, retried: {DISK_FULL}", *progress, OUT_OF_MEMORY))
    assert verdict.cause == "cuda-out-of-memory"


def test_an_absent_message_is_evidence_only_where_the_logs_are_complete() -> None:
    refused = "DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (n0, 29500)."
    partial_logs = verdict_of(log("rank1.log", refused))
    complete = verdict_of(log("rank1.log", refused, is_complete=True))
    assert (partial_logs.certainty, complete.certainty) == (Certainty.POSSIBLE, Certainty.LIKELY)


def test_a_fact_of_another_analysis_counts_like_a_line() -> None:
    fact = Fact("dataloader-stuck", EvidenceLine("flight recorder of rank 5", 0, "in data"), {"seconds": "900"}, rank=5)
    verdict = verdict_of(log("rank0.log", timeout_of(0)), facts=[fact])
    assert (verdict.cause, verdict.rank) == ("dataloader-stuck", 5)


def test_a_job_that_ended_well_has_no_verdict() -> None:
    steps = log("stderr.log", "slurmstepd: error: Exceeded step memory limit at some point.")
    accounting = log("sacct.log", "771204.batch      batch  COMPLETED      0:0   4194100K")
    assert diagnose(Evidence([steps, accounting])).verdict is None


def test_gaps_of_the_evidence_are_named() -> None:
    broken = LogSource("rank1.log.gz", partial(io.BytesIO, gzip.compress(b"x\n" * 5_000)[:30]))
    found = diagnose(Evidence([log("rank0.log", "step 1"), broken, log("rank2.log")], expected_ranks=4))
    assert found.verdict is None
    assert set(found.unseen) == {
        "rank1.log.gz: the compressed file is truncated or damaged; what precedes it was read",
        "rank2.log: empty",
        "no line of 1 of 4 ranks: 3",
    }


def test_a_missing_file_is_a_gap() -> None:
    def refuse() -> io.BytesIO:
        raise PermissionError(13, "Permission denied")

    assert diagnose(Evidence([LogSource("a.log", refuse)])).unseen == [
        "a.log: reading failed (Permission denied); what precedes it was read"
    ]


def test_secrets_are_masked_unless_they_are_asked_for() -> None:
    source = log("rank0.log", f"{OUT_OF_MEMORY} (token=hf_abcdefghijklmnop)")
    masked, shown = diagnose(Evidence([source])), diagnose(Evidence([source]), show_secrets=True)
    assert "hf_abcdefghijklmnop" not in str(masked)
    assert "hf_abcdefghijklmnop" in str(shown)


def test_a_secret_at_the_end_of_a_shortened_line_leaves_no_part() -> None:
    source = log("rank0.log", f"{OUT_OF_MEMORY} {'x' * (392 - len(OUT_OF_MEMORY))} hf_abcdefghijklmnop")
    assert "hf_" not in str(diagnose(Evidence([source])))


def test_a_crash_in_native_code_does_not_blame_the_node() -> None:
    assert verdict_of(log("rank0.log", "Fatal Python error: Segmentation fault")).advice is Advice.RETRY


def test_the_timeouts_that_follow_from_a_full_disk_are_no_other_cause() -> None:
    verdict = verdict_of(log("rank0.log", DISK_FULL), log("rank1.log", timeout_of(1)))
    assert (verdict.cause, verdict.alternatives) == ("disk-full", ())


def test_a_report_shows_no_control_characters_of_names_and_lines() -> None:
    found = diagnose(Evidence([log("ev\x1b[31mil.log", f"{OUT_OF_MEMORY} \x1b]0;x")]))
    assert "\x1b" not in text_report(found) + markdown_report(found)


def test_colours_and_progress_bars_do_not_hide_a_message() -> None:
    line = "\x1b[31m[rank1]: torch.\x1b[1mOutOfMemoryError\x1b[0m: CUDA out of memory. Tried to allocate 1.00 GiB."
    verdict = verdict_of(log("train.log", "epoch 1: 10 %\repoch 1: 20 %\r" + line))
    assert (verdict.cause, verdict.rank, verdict.evidence[0].line) == ("cuda-out-of-memory", 1, 1)


def test_phrases_of_a_driver_in_the_words_of_a_program_do_not_hide_its_traceback() -> None:
    quoted = "sample generation: 'GPU has fallen off the bus' is Xid 79"
    shape = verdict_of(log("rank0.log", quoted, "RuntimeError: shape '[2, 3]' is invalid for input of size 7"))
    assert shape.cause == "tensor-shape"
    config = verdict_of(log("rank0.log", "NVML library version: 535.104.05", "ValueError: bad config"))
    assert config.cause == "user-code-error"


def test_an_error_that_the_program_handled_is_no_root_unless_the_backend_says_that_the_job_failed() -> None:
    lines = (OUT_OF_MEMORY, "retrying with 128", "fits", "Epoch 1 step 2 loss 1.1", "Saved model to /out")
    handled = log("rank0.log", *lines)
    assert diagnose(Evidence([handled])).verdict is None
    verdict = verdict_of(handled, has_failed=True)
    assert (verdict.cause, verdict.certainty) == ("cuda-out-of-memory", Certainty.LIKELY)


def test_a_raised_error_with_later_output_of_the_program_stays_the_verdict_and_is_not_certain() -> None:
    lines = ("Traceback (most recent call last):", OUT_OF_MEMORY, "step 1 loss 2.0", "step 2 loss 1.9")
    verdict = verdict_of(log("rank0.log", *lines))
    assert (verdict.cause, verdict.certainty) == ("cuda-out-of-memory", Certainty.LIKELY)


def test_training_that_goes_on_after_an_error_makes_a_later_failure_the_verdict() -> None:
    steps = [f"step {step} loss 2.1" for step in range(8_990, 9_000)]
    fabric = "n0:5:66 [4] NCCL WARN NET/IB : Got completion from peer 10.8.0.2<37012> with status=12 error 12, opcode 0"
    assert verdict_of(log("rank0.log", OUT_OF_MEMORY, *steps, fabric)).cause == "nccl-ib-transport"


def test_progress_of_another_rank_does_not_excuse_an_error() -> None:
    steps = [f"[rank0]: step {step} loss 2.1" for step in range(9)]
    verdict = verdict_of(log("train.log", f"[rank3]: {OUT_OF_MEMORY}", *steps))
    assert (verdict.rank, verdict.certainty) == (3, Certainty.CERTAIN)


def test_an_error_after_handled_ones_is_the_failure() -> None:
    handled = [OUT_OF_MEMORY, "retrying with 128", "step 1 loss 2.0"] * 5
    assert verdict_of(log("rank0.log", *handled, OUT_OF_MEMORY)).certainty is Certainty.CERTAIN


def test_a_good_end_excuses_only_earlier_errors_of_its_rank() -> None:
    ended = "Training completed successfully"
    own = log("train.log", f"[rank3]: {OUT_OF_MEMORY}", f"[rank3]: {ended}")
    other = log("train.log", f"[rank3]: {OUT_OF_MEMORY}", f"[rank0]: {ended}")
    assert diagnose(Evidence([own])).verdict is None
    assert verdict_of(own, has_failed=True).cause == "cuda-out-of-memory"
    assert verdict_of(other).rank == 3


def test_a_good_end_of_an_earlier_time_excuses_nothing() -> None:
    start = "2026-03-02 11:00:00 started"
    accounting = log("sacct.log", start, "2026-03-02 11:20:05 771204.batch      batch  COMPLETED      0:0   4194100K")
    assert verdict_of(log("rank0.log", start, f"2026-03-02 11:25:05 {OUT_OF_MEMORY}"), accounting).rank == 0


def test_the_node_and_rank_that_a_backend_gives_win_over_the_text_of_a_line() -> None:
    forged = "Jun 12 10:00:00 n0 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert verdict_of(log("pod p1", forged, node="n1")).node == "n1"
    assert verdict_of(log("pod p1", f"[rank7]: {OUT_OF_MEMORY}", rank=1)).rank == 1


def test_a_line_tells_rank_and_node_better_than_the_name_of_its_file() -> None:
    verdict = verdict_of(log("node4/worker-1.log", f"[r9 n7] {OUT_OF_MEMORY}"))
    assert (verdict.rank, verdict.node) == (9, "n7")


def test_the_prefix_of_a_pod_is_no_node() -> None:
    assert verdict_of(log("-", "[pod/victim-node/x] NVRM: Xid (PCI:0000:3b:00): 79, pid=1")).node is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=600), max_size=4))
def test_no_bytes_make_the_engine_fail(contents: list[bytes]) -> None:
    logs = [LogSource(f"rank{rank}.log", partial(io.BytesIO, content)) for rank, content in enumerate(contents)]
    diagnose(Evidence(logs, expected_ranks=4))


NO_GPU = "  Warning  FailedScheduling  4m   default-scheduler   0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
PLACED = "  Normal   Scheduled         40s  default-scheduler   Successfully assigned ml/t-0 to gpu-pool-1"


def test_a_shortage_of_gpus_is_no_cause_after_the_pod_found_a_node() -> None:
    assert verdict_of(log("describe.txt", NO_GPU)).cause == "insufficient-gpu"
    assert diagnose(Evidence([log("describe.txt", NO_GPU, PLACED)])).verdict is None
    assert verdict_of(log("describe.txt", PLACED, NO_GPU)).cause == "insufficient-gpu"


def test_a_message_inside_json_is_read_with_plain_quotes() -> None:
    verdict = verdict_of(log("event.json", r'"message": "secret \"hub-token\" not found"'))
    assert (verdict.cause, verdict.certainty) == ("config-missing", Certainty.CERTAIN)


def test_a_rule_that_lacks_one_of_its_lines_does_not_hide_the_exception_of_another() -> None:
    alone = verdict_of(log("train.log", "KeyError: 'labels'"))
    both = verdict_of(log("train.log", '  File "/opt/auto/configuration_auto.py", line 7', "KeyError: 'labels'"))
    assert (alone.cause, both.cause) == ("user-code-error", "package-conflict")


def test_a_warning_of_python_is_an_alarm_only_for_rules_that_beat_it() -> None:
    driver = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
    verdict = verdict_of(log("train.log", driver))
    assert (verdict.cause, verdict.certainty) == ("cuda-driver-too-old", Certainty.LIKELY)
    shapes = "UserWarning: Using a target size (torch.Size([64])) is deprecated."
    assert diagnose(Evidence([log("train.log", shapes)])).verdict is None


def test_an_exit_code_alone_is_shown_with_the_last_line_of_its_rank() -> None:
    verdict = verdict_of(
        log("0.out", "2026-11-27T20:30:17.001Z step 3 loss 0.2", rank=0),
        log("0.err", "2026-11-27T20:30:17.518Z shard is not written yet", rank=0),
        log("end", "rank 0 (worker/0) on n1 exited with code 1", rank=0, is_trusted=True),
    )
    assert verdict.text.endswith("and no rule knows a message of it. The last line of rank 0: shard is not written yet")


def test_the_report_of_an_end_is_not_a_line_of_its_rank() -> None:
    verdict = verdict_of(log("pod", "digits-worker-0 on n1 exited with code 1", rank=0))
    assert verdict.text.endswith("no rule knows a message of it.")
