"""The rank and node of a verdict on the end of a process, as launchers name them."""

import io
from functools import partial

import pytest

from windlass.diagnose.diagnosis import RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource

TORCHRUN = """
W1127 08:31:18.089000 32572 torch/distributed/elastic/multiprocessing/api.py:1028] Sending \
process 32635 closing signal SIGTERM
E1127 08:31:18.091000 32572 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) \
local_rank: 1 (pid: 32636) of binary: /usr/bin/python
Failures:
[1]:
  time      : 2026-11-27_08:31:18
  host      : gpu-7
  rank      : 4 (local_rank: 0)
  exitcode  : -15 (pid: 32635)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 32635
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_08:31:18
  host      : gpu-7
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 32636)  ({name})
  error_file: <N/A>
  traceback : Signal {number} ({name}) received by PID 32636
"""
LOADER = "[rank1]: RuntimeError: DataLoader worker (pid 3088) is killed by signal: Killed."


def verdict(**logs: str) -> RootCause:
    sources = [LogSource(name, partial(io.BytesIO, text.encode())) for name, text in logs.items()]
    found = diagnose(Evidence(sources, has_failed=True)).verdict
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rule", "code", "name", "number"),
    [("signal-9", -9, "SIGKILL", 9), ("process-segfault", -11, "SIGSEGV", 11)],
    ids=["SIGKILL", "SIGSEGV"],
)
def test_the_summary_of_torchrun_names_rank_and_node_of_its_first_line(
    rule: str, code: int, name: str, number: int
) -> None:
    found = verdict(log=TORCHRUN.format(code=code, name=name, number=number))
    assert (found.rule, found.rank, found.node) == (rule, 5, "gpu-7")
    assert "rank 5" in found.text


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGBUS", "SIGTERM"])
def test_the_line_of_an_agent_names_the_rank_and_the_record_its_node(name: str) -> None:
    line = f"2026-11-27T08:31:09.121Z windlass agent: the run has failed: rank 1 (pid 324) killed by {name}"
    found = verdict(agent_0=line, agent_1=line, record=f"rank 1 (worker/0) on n1 killed by {name}")
    assert (found.rank, found.node) == (1, "n1")


def test_a_process_id_of_two_ranks_names_none() -> None:
    lines = (
        "[rank0]: worker (pid 7) killed by SIGKILL",
        "[rank1]: worker (pid 7) killed by SIGKILL",
        "task (pid 7) killed by SIGKILL",
    )
    found = verdict(log="\n".join(reversed(lines)))
    assert (found.rule, found.rank) == ("signal-9", None)


def test_an_exit_code_is_no_other_cause_beneath_the_message_that_says_why() -> None:
    found = verdict(log=f"{LOADER}\nrank 1 (pid 81) exited with 1")
    assert (found.rule, found.alternatives) == ("dataloader-worker-killed", ())


def test_an_exit_code_of_a_rank_without_a_message_is_another_cause() -> None:
    found = verdict(log=f"{LOADER}\nrank 0 (pid 80) exited with 3")
    assert [other.rule for other in found.alternatives] == ["exit-status"]


def test_the_first_parameter_of_another_size_is_named() -> None:
    found = verdict(
        log="RuntimeError: Error(s) in loading state_dict for Net:\n"
        "\tsize mismatch for fc.weight: copying a param with shape torch.Size([10, 8]) from checkpoint, "
        "the shape in current model is torch.Size([12, 8]).\n"
        "\tsize mismatch for fc.bias: copying a param with shape torch.Size([10]) from checkpoint, "
        "the shape in current model is torch.Size([12]).\n"
    )
    assert found.cause == "checkpoint-mismatch"
    assert "fc.weight, saved as torch.Size([10, 8]), and torch.Size([12, 8]) in the model" in found.text
    assert [line.text.split(":")[0] for line in found.evidence] == [
        "size mismatch for fc.weight",
        "size mismatch for fc.bias",
        "RuntimeError",
    ]
