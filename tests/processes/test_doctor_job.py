"""Failures of real processes get the right verdict by themselves, and `windlass doctor JOB` explains them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from terminal import crash, daemon, facts, ok, phase, until, windlass

from torch_forks import link_python
from windlass.server.diagnosis.diagnosis_process import DiagnosisError, ProcessLimits, diagnose_in_process
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText

SMALL = ("--local-nodes", "2", "--local-gpus", "2")

HOST_MEMORY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
held = [bytearray(1 << 28) for _ in range(64)]
"""
FULL_DISK = """
with open("/dev/full", "wb") as checkpoint:
    checkpoint.write(b"x" * (1 << 20))
"""
BAD_RENDEZVOUS = """
import os, datetime
import torch.distributed as dist
os.environ["MASTER_ADDR"] = "no-such-host.invalid"
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
"""
HANG = """
import datetime, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
if dist.get_rank() == 1:
    time.sleep(60)
dist.all_reduce(torch.ones(1))
"""
NOT_A_NUMBER = """
import torch
from windlass import train

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((4,), float("nan")), torch.zeros(1)

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(4, 1), optimizer=torch.optim.SGD, lr=0.01)
    for batch in run.steps(run.data(Samples(), global_batch=4), 200):
        run.step(optimizer, loss=run.backward(model, batch, torch.nn.functional.mse_loss))
"""
WRONG_WORLD_SIZE = """
from windlass import train
with train.init(mesh="dp=4"):
    pass
"""
PORT_IN_USE = """
import socket
first, second = socket.socket(), socket.socket()
first.bind(("127.0.0.1", 0))
first.listen()
second.bind(first.getsockname())
"""
UNREADABLE_CHECKPOINT = """
import pathlib, torch
path = pathlib.Path("step-10.pt")
torch.save({"weight": torch.ones(1000)}, path)
path.write_bytes(path.read_bytes()[:1500])
torch.load(path)
"""
SAME_STEP = """
for step in range(5):
    print(f"step {step} loss 0.5", flush=True)
raise ValueError("sample 5 has no label")
"""
LOADER_RULES = ["dataloader-worker-killed", "dataloader-worker-exited", "dataloader-connection-lost"]
KILLED_WORKER = """
import os, signal, torch, torch.distributed as dist

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if os.environ["RANK"] == "1" and index == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1)

dist.init_process_group("gloo")
for batch in torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=2):
    dist.all_reduce(batch)
"""
SHADOW = """
import pathlib
pathlib.Path("random.py").write_text("x = 1")
import tempfile
"""
SHAPES = "import torch; torch.nn.Linear(4, 2)(torch.ones(3, 5))"


def verdict_of(state: Path, job: str) -> dict[str, object]:
    """The verdict that is stored with the newest diagnosed attempt of a job."""
    return until(state, "it['diagnosis']", "status", job)["diagnosis"]


@pytest.mark.parametrize(
    ("rules", "script", "ranks"),
    [
        (["host-allocation-failed"], HOST_MEMORY, 1),
        (["disk-full"], FULL_DISK, 1),
        (["package-missing"], "import no_such_package", 1),
        (["tensor-shape"], SHAPES, 1),
        (["rendezvous-refused", "rendezvous-dns", "rendezvous-dns-and-timeout"], BAD_RENDEZVOUS, 2),
        (["gloo-timeout"], HANG, 2),
        (["loss-not-finite"], NOT_A_NUMBER, 1),
        (["world-size-environment"], WRONG_WORLD_SIZE, 2),
        (["rendezvous-port-in-use"], PORT_IN_USE, 1),
        (["checkpoint-not-readable"], UNREADABLE_CHECKPOINT, 1),
        (["python-exception"], SAME_STEP, 1),
        (LOADER_RULES, KILLED_WORKER, 2),
        (["module-shadowed"], SHADOW, 1),
    ],
    ids=[
        *("memory", "disk", "package", "shape", "rendezvous", "hang"),
        *("nan", "world size", "port", "checkpoint", "step", "loader", "shadow"),
    ],
)
def test_the_failure_of_a_script_has_its_verdict_at_the_end_of_the_run(
    state: Path, tmp_path: Path, rules: list[str], script: str, ranks: int
):
    path = tmp_path / "script.py"
    path.write_text(script)
    words = ("run", "--name", "case", "--workdir", str(tmp_path), "-N", str(ranks), *SMALL)
    ran = windlass(state, *words, "--", sys.executable, str(path))
    assert ran.returncode, ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("verdict: ")]
    assert line.rpartition(", ")[2].removesuffix(")") in rules, line
    (row,) = facts(state, "history")
    assert row["diagnosis"]["rule"] in rules
    assert row["diagnosis"]["text"] in line
    assert "verdict: " in ok(state, "status", "case")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("executable-missing", ("--", "no-such-program")),
        ("process-segfault", ("--", "sh", "-c", "kill -SEGV $$")),
        ("deadline-exceeded", ("--time", "1s", "--", "sleep", "30")),
    ],
)
def test_the_end_of_a_process_without_output_has_its_verdict(state: Path, rule: str, words: tuple[str, ...]):
    assert windlass(state, "run", "--name", "case", *words).returncode
    (row,) = facts(state, "history")
    assert row["diagnosis"]["rule"] == rule


@pytest.mark.parametrize(
    ("rule", "content", "mode"),
    [("exec-format", "no program", 0o755), ("executable-missing", "#!/no/such/shell", 0o755)],
    ids=["format", "interpreter"],
)
def test_a_file_that_cannot_be_run_has_its_verdict(state: Path, tmp_path: Path, rule: str, content: str, mode: int):
    program = tmp_path / "train"
    program.write_text(content)
    program.chmod(mode)
    ran = windlass(state, "run", "--name", "case", "--workdir", str(tmp_path), "--", "./train")
    assert f", {rule})" in ran.stderr, ran.stderr


def test_a_program_that_sigterm_ends_before_it_has_saved_has_its_verdict(state: Path, tmp_path: Path):
    path = tmp_path / "job.yaml"
    script = "echo step 7, last saved step 0; kill -TERM $$"
    path.write_text(f"name: case\ncommand: [sh, -c, {script!r}]\nrestart: {{infrastructure: 0}}\n")
    assert windlass(state, "run", str(path)).returncode
    (row,) = facts(state, "history")
    assert row["diagnosis"]["rule"] == "signal-15"


def test_a_program_that_fails_in_each_attempt_has_the_verdict_on_the_last_one(state: Path, tmp_path: Path):
    (tmp_path / "script.py").write_text(SAME_STEP)
    words = ("run", "--name", "case", "--restarts", "1", "--workdir", str(tmp_path))
    ran = windlass(state, *words, "--", sys.executable, "script.py")
    assert ran.returncode == 1
    found = facts(state, "status", "case")["diagnosis"]
    assert (found["rule"], found["generation"]) == ("python-exception", 2)
    assert "sample 5 has no label" in found["text"]


def test_each_failed_attempt_of_a_job_is_diagnosed_and_the_job_goes_on(state: Path):
    script = "test $WINDLASS_GENERATION = 2 || test $RANK = 0 || kill -KILL $$; sleep 8"
    ran = windlass(state, "run", "--name", "case", "-N", "2", *SMALL, "--", "sh", "-c", script)
    assert ran.returncode == 0, ran.stderr
    found = windlass(state, "doctor", "case", "--attempt", "1", "-o", "json")
    verdict = json.loads(found.stdout)["verdict"]
    assert (verdict["rule"], verdict["rank"], verdict["node"]) == ("signal-9", 1, "n2")
    assert found.returncode == 1
    assert facts(state, "status", "case")["diagnosis"]["generation"] == 1
    assert "    verdict: " in ok(state, "status", "case")
    healthy = windlass(state, "doctor", "case")
    assert healthy.returncode == 0, healthy.stdout


def test_a_lasting_error_is_not_tried_again_under_the_policy_act(state: Path, tmp_path: Path):
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: case\ncommand: [{sys.executable}, -c, import no_such_package]\nrestart: {{user: 5, verdict: act}}\n"
    )
    ran = windlass(state, "run", str(path))
    assert ran.returncode == 1
    lasting = "The environment of rank 0 lacks a package: no_such_package"
    assert f"not started again (restart.verdict): {lasting}" in ran.stderr
    assert "1 attempt" in ran.stderr


def test_a_preempted_job_and_a_waiting_job_are_explained(state: Path, tmp_path: Path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("nodes: [{name: n1, gpus: 2, cpus: 4}]\npolicy: {min_runtime: 0s}\n")
    with daemon(state, "--cluster", str(cluster)):
        ok(state, "submit", "--name", "victim", "-G", "2", "--", "sleep", "100")
        phase(state, "victim", "Running")
        ok(state, "submit", "--name", "urgent", "-G", "2", "--priority", "9", "--", "sleep", "100")
        phase(state, "urgent", "Running")
        assert verdict_of(state, "victim")["rule"] == "preempted"
        waits = windlass(state, "doctor", "victim", "-o", "json")
        assert json.loads(waits.stdout)["verdict"]["cause"] in ("insufficient-gpu", "queue-waiting")


STANDS_STILL = """
import os, time
for step in range(2):
    print("step", step, flush=True)
    if os.environ["RANK"] == "1":
        time.sleep(100)
    time.sleep(0.5)
time.sleep(100)
"""


def test_a_job_that_runs_has_the_last_signs_of_its_ranks(state: Path, tmp_path: Path):
    (tmp_path / "script.py").write_text(STANDS_STILL)
    with daemon(state, *SMALL):
        words = ("submit", "--name", "case", "-N", "2", "--workdir", str(tmp_path))
        ok(state, *words, "--", sys.executable, "script.py")
        seen = "it['job']['ranks'] and all(each['printed_at'] for each in it['job']['ranks'])"
        first, second = until(state, f"{seen} and it['job']['ranks'][0]['rank'] == 1", "doctor", "case")["job"]["ranks"]
        assert (first["node"], second["rank"]) == ("n2", 0)
        assert first["printed_at"] <= second["printed_at"]
        ran = windlass(state, "doctor", "case")
        assert ran.returncode == 0
        head, nothing, *lines = ran.stdout.splitlines()
        assert head.startswith("case-1 runs: attempt 1 since ")
        assert nothing == "No line points to a failure."
        assert lines[0] == "last signs"
        assert lines[2].startswith("  rank 1 on n2: last output ")
        assert "  none with the launcher plain; agents have it: --launcher agent" in lines
        assert "  windlass logs case-1 --rank 1 --tail 20" in lines
        assert windlass(state, "doctor", "case", "-o", "markdown").stdout.startswith("**case-1 runs: attempt 1 since ")


HANGS_IN_A_STEP = """
import os, time
import torch
from windlass import train

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.ones(4), torch.zeros(1)

def stand_still():
    time.sleep(600)

with train.init() as run:
    model, optimizer = run.parallelize(lambda: torch.nn.Linear(4, 1), optimizer=torch.optim.SGD, lr=0.01)
    for number, batch in enumerate(run.steps(run.data(Samples(), global_batch=4), 9)):
        if number == 3 and os.environ["RANK"] == "1":
            stand_still()
        run.step(optimizer, loss=run.backward(model, batch, torch.nn.functional.mse_loss))
"""


def test_a_rank_that_hangs_writes_its_stack_and_the_report_shows_its_place(state: Path, tmp_path: Path):
    (tmp_path / "script.py").write_text(HANGS_IN_A_STEP)
    with daemon(state, *SMALL):
        words = ("submit", "--name", "case", "-N", "2", "--launcher", "agent", "--workdir", str(tmp_path))
        ok(state, *words, "--", str(link_python(tmp_path / "bin")), "script.py")
        hangs = "it['job']['ranks'] and {each['phase'] for each in it['job']['ranks']} == {'outside', 'backward'}"
        job = until(state, f"{hangs} and it['job']['ranks'][0]['step'] == 3", "doctor", "case")["job"]
        assert [each["rank"] for each in job["ranks"]] == [1, 0]
        assert "has been in the phase outside for 1800 s" in job["hang_detection"]
        pids = [each["pid"] for each in job["ranks"]]
        command = job["next_commands"][0]
        assert command == f"kill -USR2 {pids[0]} {pids[1]} && sleep 1 && windlass doctor case-1"
        for pid in pids:
            os.kill(pid, signal.SIGUSR2)
        places = until(state, "all(each['waits_in'] for each in it['job']['ranks'])", "doctor", "case")["job"]
        assert places["ranks"][0]["waits_in"] == "script.py:13 in stand_still"
        assert "windlass logs case-1 --rank 1 --tail 20" in places["next_commands"]


def test_a_job_that_waits_for_its_turn_and_one_that_has_succeeded_are_told_so(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "held", "--suspend", "--", "true")
        assert ok(state, "doctor", "held").startswith("held-1 is suspended")
        ok(state, "submit", "--name", "good", "--", "sh", "-c", "echo Error: no such file")
        phase(state, "good", "Succeeded")
        head, *lines = ok(state, "doctor", "good").splitlines()
        assert head.startswith("good-2 has succeeded: attempt 1 since ")
        assert lines == ["next command", "  windlass logs good-2"]
        assert facts(state, "doctor", "good")["job"]["phase"] == "Succeeded"


def test_the_verdict_survives_a_crash_of_the_daemon(state: Path):
    with daemon(state):
        ok(state, "submit", "--name", "case", "--", "sh", "-c", "kill -SEGV $$")
        before = verdict_of(state, "case")
        crash(state)
    with daemon(state):
        job = facts(state, "status", "case")
    assert job["diagnosis"] == before
    assert [step["event"] for step in job["transitions"]].count("Diagnosed") == 1


def test_a_word_that_is_neither_file_nor_job_is_named(state: Path):
    ran = windlass(state, "doctor", "nothing")
    assert ran.returncode == 4
    assert "nothing is neither a file nor a job" in ran.stderr


# --- the process that diagnoses --------------------------------------------------------------------------------------

REQUEST = EvidenceRequest(1, texts=[LoggedText("record", "text")])


def diagnose(script: str, **limits: float) -> None:
    asyncio.run(diagnose_in_process(REQUEST, ProcessLimits(**limits), ("-c", script)))


def test_a_diagnosis_that_takes_too_long_is_killed():
    began = time.monotonic()
    with pytest.raises(DiagnosisError, match=r"longer than 0\.3 s"):
        diagnose("import time; time.sleep(60)", time_s=0.3)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("raise ValueError('no idea')", "exit code 1: ValueError: no idea"),
        ("print('hello')", "printed no verdict"),
    ],
)
def test_a_diagnosis_that_crashes_says_so(script: str, why: str):
    with pytest.raises(DiagnosisError, match=why):
        diagnose(script)


def test_the_process_has_no_secrets_of_the_operator_and_its_errors_are_masked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_DATABASE", "postgresql://operator")
    shown = "import os; raise ValueError('WINDLASS_DATABASE' in os.environ, os.environ['PATH'] != '', 'token=abc123')"
    with pytest.raises(DiagnosisError, match=r"ValueError: \(False, True, 'token=\*\*\*'?\)?") as raised:
        diagnose(shown)
    assert "abc123" not in str(raised.value)


def test_a_diagnosis_has_its_limit_of_memory():
    with pytest.raises(DiagnosisError):
        asyncio.run(diagnose_in_process(REQUEST, ProcessLimits(memory=16 << 20)))
