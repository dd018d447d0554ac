"""Messages with several causes, and logs without an end: the verdict is no stronger than its evidence."""

import io
from functools import partial

import pytest

from windlass.diagnose.diagnosis import Certainty, Diagnosis
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource
from windlass.diagnose.failures.reports import text_report

SETUP = """\
n1:5:66 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
n1:5:66 [0] NCCL INFO Connected all rings
n1:5:66 [0] NCCL INFO comm 0x7fb5a4001060 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE
"""
BOOTSTRAP = "n1:5:66 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\n"


def diagnosis_of(*texts: str, has_failed: bool = False) -> Diagnosis:
    logs = [
        LogSource(f"rank{rank}.log", partial(io.BytesIO, text.encode()), is_complete=True)
        for rank, text in enumerate(texts)
    ]
    return diagnose(Evidence(logs, has_failed=has_failed))


@pytest.mark.parametrize("text", [SETUP, BOOTSTRAP], ids=["channels", "bootstrap"])
def test_a_log_that_ends_in_the_set_up_has_no_verdict_and_a_note_with_the_next_step(text: str) -> None:
    found = diagnosis_of(text)
    assert found.verdict is None
    assert len(found.notes) == 1
    assert "rank0.log ends in the set-up of NCCL" in text_report(found)
    assert "add --failed" in text_report(found)


def test_a_finished_run_whose_other_ranks_print_only_the_set_up_has_no_verdict() -> None:
    assert diagnosis_of(SETUP + "step 100 loss 0.1\nfinal accuracy 0.99\n", SETUP).verdict is None


def test_the_same_log_of_a_job_that_failed_has_a_possible_verdict() -> None:
    verdict = diagnosis_of(SETUP, has_failed=True).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.certainty) == ("nccl-silent-within-one-node", Certainty.POSSIBLE)


def test_a_line_that_says_that_the_program_hangs_counts_as_a_failure() -> None:
    verdict = diagnosis_of(SETUP + "(hangs)\n").verdict
    assert verdict is not None
    assert verdict.cause == "nccl-p2p-broken"


@pytest.mark.parametrize(
    ("line", "certainty"),
    [
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", Certainty.CERTAIN),
        ("ERROR: Unexpected bus error encountered in worker.", Certainty.LIKELY),
        ("Fatal Python error: Bus error", Certainty.POSSIBLE),
        (
            "mpirun noticed that process rank 1 with PID 81 on node w2 exited on signal 7 (Bus error).",
            Certainty.POSSIBLE,
        ),
    ],
)
def test_a_bus_error_is_certain_only_where_shared_memory_is_named(line: str, certainty: Certainty) -> None:
    verdict = diagnosis_of(line).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.certainty) == ("shm-too-small", certainty)
    others = {other.cause for other in verdict.alternatives}
    assert others == (set() if certainty is Certainty.CERTAIN else {"disk-full", "data-corrupt", "storage-io-error"})


def test_each_other_cause_of_a_bus_error_has_what_decides() -> None:
    verdict = diagnosis_of("Fatal Python error: Bus error").verdict
    assert verdict is not None
    assert all(other.decide for other in verdict.alternatives)
    assert "df -h" in next(other.decide for other in verdict.alternatives if other.cause == "disk-full")


def test_a_full_disk_that_the_log_names_explains_a_bus_error() -> None:
    verdict = diagnosis_of(
        "OSError: [Errno 28] No space left on device: '/data/cache.bin'\nBus error (core dumped)"
    ).verdict
    assert verdict is not None
    assert verdict.cause == "disk-full"


LAUNCHER = """\
W1127 09:25:02.190000 513 torch/distributed/run.py:874]
W1127 09:25:02.190000 513 torch/distributed/run.py:874] *****************************************
"""


@pytest.mark.parametrize("texts", [("",), (LAUNCHER,), ("", LAUNCHER)], ids=["empty", "launcher", "both"])
def test_a_launcher_without_output_that_failed_possibly_waited_at_the_rendezvous(texts: tuple[str, ...]) -> None:
    verdict = diagnosis_of(*texts, has_failed=True).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.certainty) == ("rendezvous-too-few-nodes", Certainty.POSSIBLE)
    assert all(word in verdict.fix for word in ("--nnodes", "--rdzv-endpoint", "PORT", "firewall"))
    found = diagnosis_of(*texts)
    assert found.verdict is None
    assert "add --failed" in found.notes[0]


def test_a_line_of_a_rank_shows_that_the_launcher_did_not_wait() -> None:
    assert diagnosis_of(LAUNCHER, "step 1 loss 0.3\n", has_failed=True).verdict is None
