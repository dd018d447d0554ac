"""Evidence of an attempt: the record of the job, the ends of its ranks, and excerpts of their logs."""

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windlass.backends.local.paths import StatePaths
from windlass.core.model.diagnosed_cause import is_lasting, node_to_avoid, proven_bad_node
from windlass.diagnose.diagnosis import Advice, CauseScope, Certainty, Diagnosis, EvidenceLine, RootCause
from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence
from windlass.server.diagnosis.attempt_verdict import NO_CAUSE, failed_diagnosis, verdict_of
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedFile, LoggedText, read_evidence
from windlass.server.diagnosis.job_record import record_texts
from windlass.server.diagnosis.local_evidence import local_evidence
from windlass.server.diagnosis.log_excerpts import open_file, open_stream

NOON = 1_700_000_000_000


def task(rank: int, detail: str = "", *, code: int | None = None, signal: int | None = None) -> dict[str, Any]:
    end = {"code": code, "signal": signal, "detail": detail}
    return {"generation": 2, "rank": rank, "node": f"n{rank}", "role": "worker", "replica": rank, **end}


def step(event: str, before: str, after: str, message: str) -> dict[str, Any]:
    return {"at": NOON, "event": event, "before": before, "after": after, "message": message}


KILLED = "rank 1 killed by SIGKILL"
DETAILS = {
    "id": "train-7",
    "ranks": 3,
    "spec": {"launcher": "plain"},
    "status": {
        "generation": 2,
        "failed_generation": 2,
        "last_failure": {"reason": "Signal", "message": "rank 1 killed by SIGKILL", "at": NOON},
    },
    "transitions": [
        step("Submitted", "Created", "Queued", "Queued"),
        step("Admit", "Queued", "Admitted", "Admitted: starting on n0"),
        step("MemberExited", "Running", "Restarting", "ExitCode: an older failure"),
        step("GangGone", "Restarting", "Admitted", "Admitted: starting on n0"),
        step("MemberExited", "Running", "Restarting", "Signal: rank 1 killed by SIGKILL"),
        step("Diagnosed", "Restarting", "Restarting", "attempt 1: an older verdict"),
        step("GangGone", "Restarting", "Failed", f"{KILLED}; not started again (restart.verdict): GPU fell off"),
        step("GangGone", "Restarting", "Queued", "node n1 is avoided (restart.verdict): GPU fell off"),
    ],
    "tasks": [
        task(0, "rank 0 killed by SIGTERM", signal=15),
        task(1, "rank 1 killed by SIGKILL", signal=9),
        task(2, "rank 2 exited with code 3", code=3),
    ],
}


def test_the_record_has_the_attempt_and_no_other_verdict() -> None:
    record, *ends = record_texts(DETAILS, 2)
    lines = record.text.splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        "Admitted: starting on n0",
        "node n1 is avoided ",
    ]
    assert lines[0].startswith("2023-11-14T22:13:20.000Z ")
    assert [(end.rank, end.node, end.text) for end in ends] == [
        (1, "n1", "rank 1 killed by SIGKILL\n"),
        (2, "n2", "rank 2 exited with code 3\n"),
    ]


def test_an_end_that_all_agents_report_is_told_once_with_the_node_that_it_names() -> None:
    detail = "rank 5 (worker/1) on n1 killed by SIGSEGV"
    agents = [task(0, detail, code=139), task(1, detail, code=139)]
    ends = record_texts({**DETAILS, "tasks": agents, "transitions": []}, 2)
    assert [(end.rank, end.node) for end in ends if end.name == "end of rank 5"] == [(5, "n1")]
    assert not any(end.name == "end of rank 0" for end in ends)


def test_equal_ends_that_name_no_rank_are_those_of_all_ranks() -> None:
    ends = record_texts({**DETAILS, "tasks": [task(n, "OOMKilled", code=137) for n in (0, 1)], "transitions": []}, 2)
    assert [(end.rank, end.node) for end in ends if end.name.startswith("end")] == [(0, "n0"), (1, "n1")]


def test_local_logs_are_complete_also_of_ranks_that_print_nothing(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    logs = paths.generation_logs("train-7", 2)
    logs.mkdir(parents=True)
    (logs / "1.err").write_bytes(b"Traceback\nValueError\n")
    (logs / "1.err.idx").write_bytes(struct.pack("<QQ", NOON, 0))
    evidence, gaps, *_ = read_evidence(local_evidence(paths, DETAILS, 2))
    assert gaps == []
    found = {log.name: log for log in evidence.logs}
    assert (
        found["rank 1 err"].open().read()
        == b"2023-11-14T22:13:20.000Z Traceback\n2023-11-14T22:13:20.000Z ValueError\n"
    )
    assert (found["rank 1 err"].rank, found["rank 1 err"].node, found["rank 1 err"].attempt) == (1, "n1", 2)
    assert (found["rank 0"].open().read(), found["rank 0"].is_complete) == (b"", True)
    assert evidence.expected_ranks == 3


def test_a_large_stream_is_read_at_both_ends(tmp_path: Path) -> None:
    stream = tmp_path / "0.out"
    stream.write_bytes(b"".join(b"line %06d\n" % number for number in range(100_000)))
    excerpt = open_stream(stream, 40_000)
    lines = excerpt.open().read().decode().splitlines()
    assert not excerpt.is_whole
    assert (lines[0].split()[-1], lines[-1].split()[-1]) == ("000000", "099999")
    assert 2_500 < len(lines) < 3_700


def test_a_rotated_stream_without_its_start_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "0.out.2").write_bytes(b"second\n")
    (tmp_path / "0.out").write_bytes(b"third\n")
    excerpt = open_stream(tmp_path / "0.out", 1_000)
    assert [line.split()[-1] for line in excerpt.open().read().splitlines()] == [b"second", b"third"]
    assert not excerpt.is_whole


def test_a_file_is_read_at_both_ends_and_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %06d\n" % number for number in range(10_000)))
    excerpt = open_file(path, 4_000)
    lines = excerpt.open().read().decode().splitlines()
    assert (lines[0], lines[-1], len(set(map(len, lines)))) == ("line 000000", "line 009999", 1)
    assert open_file(path, 1 << 20).is_whole


def test_a_pipe_in_place_of_a_log_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="not a regular file"):
        open_file(tmp_path / "log", 100).open()
    assert open_stream(tmp_path / "log", 100).open().read() == b""


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of another job\n")
    (tmp_path / "0.out").symlink_to(tmp_path / "secret")
    for excerpt in (open_file(tmp_path / "0.out", 100), open_stream(tmp_path / "0.out", 100)):
        with pytest.raises(OSError, match="symbolic links"):
            excerpt.open()


def test_links_beside_the_files_of_agents_are_left_out(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path / "state")
    logs = paths.generation_logs("train-7", 2)
    (logs / "node0").mkdir(parents=True)
    (logs / "node0" / "0.json").write_text("{}")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("of another job")
    (logs / "node0" / "file").symlink_to(tmp_path / "elsewhere" / "secret")
    (logs / "node0" / "folder").symlink_to(tmp_path / "elsewhere")
    (logs / "node1").symlink_to(tmp_path / "elsewhere")
    assert list(local_evidence(paths, DETAILS, 2).hang_files) == [str(logs / "node0" / "0.json")]


def test_512_ranks_share_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 80 + b"\n" + b"y" * 200_000)
    request = EvidenceRequest(
        1, [LoggedFile(f"rank {rank}", str(path), rank, is_complete=True) for rank in range(1024)]
    )
    logs = read_evidence(request)[0].logs
    assert sum(len(log.open().read()) for log in logs) <= 16 << 20
    assert not any(log.is_complete for log in logs)


CAUSE = RootCause(
    "package-missing",
    "package-missing",
    "The package foo is not installed; token=abc123",
    Certainty.CERTAIN,
    CauseScope.JOB,
    Advice.STOP,
    "why",
    "Install it",
    rank=3,
    node="n1",
    evidence=(EvidenceLine("record", 1, "text"),),
)


def test_a_verdict_has_what_the_controller_needs_and_no_secrets() -> None:
    def diagnose(evidence: Evidence) -> Diagnosis:
        assert [log.open().read() for log in evidence.logs] == [b"text"]
        return Diagnosis(CAUSE, ["rank 4 has no log", "rank 5 has no log"])

    cause = verdict_of(
        EvidenceRequest(2, texts=[LoggedText("record", "text", node="n1")], unseen=["pods/log is denied"]), diagnose
    )
    assert (cause.generation, cause.rule, cause.certainty, cause.scope) == (2, "package-missing", "certain", "job")
    assert (cause.advice, cause.node, cause.rank) == ("stop", "n1", 3)
    assert cause.text == "The package foo is not installed; token=***"
    assert cause.unseen == "pods/log is denied, and 2 more"


def test_a_node_that_only_a_log_names_is_no_node_of_the_verdict() -> None:
    request = EvidenceRequest(2, texts=[LoggedText("record", "Xid 79 on n1", node="n7")])
    assert verdict_of(request, lambda _evidence: Diagnosis(CAUSE)).node == ""


FELL_OFF = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus."


def test_output_of_a_program_names_no_node_but_its_own() -> None:
    syslog = f"Jun 12 10:00:00 n0 kernel: {FELL_OFF}\n"
    request = EvidenceRequest(1, texts=[LoggedText("pod p1", syslog, 1, "n1"), LoggedText("pod p0", "", 0, "n0")])
    assert verdict_of(request, diagnose).node in ("", "n1")
    of_record = EvidenceRequest(1, texts=[LoggedText("record of job", syslog), LoggedText("pod p0", "", 0, "n0")])
    assert verdict_of(of_record, diagnose).node == ""


def test_a_program_that_prints_an_xid_proves_no_node_bad() -> None:
    printed = LoggedText("pod p0", FELL_OFF + "\n", 0, "n0")
    cause = verdict_of(EvidenceRequest(1, texts=[printed]), diagnose)
    assert (node_to_avoid(cause), proven_bad_node(cause)) == ("n0", "")


def test_the_conditions_of_the_node_confirm_a_verdict_and_make_none() -> None:
    printed = LoggedText("pod p0", FELL_OFF + "\n", 0, "n0")
    here = LoggedText("conditions of node n0", f"GpuProblem: Xid\n{FELL_OFF}\n", node="n0", is_trusted=True)
    elsewhere = replace(here, name="conditions of node n1", node="n1")
    assert proven_bad_node(verdict_of(EvidenceRequest(1, texts=[printed, here]), diagnose)) == "n0"
    assert proven_bad_node(verdict_of(EvidenceRequest(1, texts=[printed, elsewhere]), diagnose)) == ""
    assert verdict_of(EvidenceRequest(1, texts=[here]), diagnose).text == NO_CAUSE


FORGED = f"FailedMount: ModuleNotFoundError: No module named 'einops'\nFailedMount: {FELL_OFF}\n"


@pytest.mark.parametrize("events", [FORGED, f"FailedMount: {FELL_OFF} node=n0\n", "FailedScheduling: Xid 79 on n0\n"])
def test_events_that_any_user_can_write_end_no_job_and_avoid_no_node(events: str) -> None:
    pod = LoggedText("pod p0", "", 0, "n0")
    request = EvidenceRequest(1, texts=[pod, LoggedText("wait of job", events, from_events=True)])
    cause = verdict_of(request, diagnose)
    assert not is_lasting(cause)
    assert (node_to_avoid(cause), proven_bad_node(cause)) == ("", "")


def test_a_cause_of_events_is_told_as_possible() -> None:
    text = 'FailedMount: MountVolume.SetUp failed for volume "data" : references non-existent secret key: token\n'
    strengths = {
        from_events: verdict_of(
            EvidenceRequest(1, texts=[LoggedText("wait of job", text, from_events=from_events)]), diagnose
        )
        for from_events in (False, True)
    }
    assert strengths[True].rule == strengths[False].rule != ""
    assert strengths[True].certainty == "possible" != strengths[False].certainty


def test_a_cause_that_the_output_proves_too_keeps_its_strength() -> None:
    output = LoggedText("pod p0", "ModuleNotFoundError: No module named 'einops'\n", 0, "n0")
    request = EvidenceRequest(1, texts=[output, LoggedText("wait of job", FORGED, from_events=True)])
    assert verdict_of(request, diagnose).certainty == verdict_of(EvidenceRequest(1, texts=[output]), diagnose).certainty


def test_a_text_that_is_a_part_of_a_log_is_not_complete() -> None:
    request = EvidenceRequest(1, texts=[LoggedText("a", "x"), LoggedText("b", "x", is_complete=False)])
    assert [log.is_complete for log in read_evidence(request)[0].logs] == [True, False]


def test_a_failed_diagnosis_shows_no_secrets() -> None:
    assert failed_diagnosis(1, "exit code 1: password=hunter2").text == "not diagnosed: exit code 1: password=***"


@pytest.mark.parametrize("unseen", [(), ("rank 4 has no log",)])
def test_no_known_cause_is_a_verdict_too(unseen: tuple[str, ...]) -> None:
    cause = verdict_of(EvidenceRequest(2), lambda _evidence: Diagnosis(None, unseen))
    assert (cause.text, cause.rule, cause.unseen) == (NO_CAUSE, "", "".join(unseen))


def test_a_good_end_in_the_output_does_not_hide_the_error_of_an_attempt_that_failed() -> None:
    output = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\nTraining completed successfully\n"
    )
    request = EvidenceRequest(1, texts=[LoggedText("rank 0", output, 0, "n1")])
    assert verdict_of(request, diagnose).rule == "cuda-out-of-memory"
