"""Jobs whose ranks are started by agents, one per replica. Without torch a test takes a tenth of the time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from local_controller import PATH_ONLY, await_condition, job, run_controller
from supervisor_driver import is_gone

from windlass.backends.local.rank_activity import rank_activity
from windlass.core.lifecycle.events import Cancel
from windlass.core.model.job import Job, Launcher, RestartPolicy
from windlass.core.model.status import FailureClass, Phase
from windlass.server.progress import summarize_progress

WAITS = """
import os, sys, time
rank, generation = os.environ["RANK"], int(os.environ["WINDLASS_GENERATION"])
sys.stdout.write(f"rank {rank} generation {generation} pid {os.getpid()}\\n")
while generation < int(sys.argv[1]):
    time.sleep(0.02)
"""
"""The line and its end are one write: `print` makes two. A rank that is killed in between leaves a line without an end,
which the next generation continues.
"""
QUICK = RestartPolicy(backoff_base=10)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Returns an environment in which torch cannot be imported."""
    (tmp_path / "no").mkdir()
    (tmp_path / "no/torch.py").write_text("raise ImportError('there is no torch here')")
    return {**PATH_ONLY, "PYTHONPATH": str(tmp_path / "no")}


REPORTS = """
import json, os, socket, time
rank, generation = int(os.environ["RANK"]), int(os.environ["WINDLASS_GENERATION"])
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ["WINDLASS_AGENT_SOCKET"])
def send(**what):
    agent.send(json.dumps({"rank": rank, "generation": generation, **what}).encode())
send(type="heartbeat", step=4, phase="forward", beat=9)
send(type="telemetry", step=4, values={"loss": 2.5, "steps": 10, "step_ms": 20.0})
print("sent", flush=True)
time.sleep(1000)
"""


def agents(tmp_path: Path, script: str, *words: str, replicas: int = 2, **fields: Any) -> Job:
    path = tmp_path / "script.py"
    path.write_text(script)
    command = (sys.executable, str(path), *words)
    return job(*command, replicas=replicas, procs=2, launcher=Launcher.AGENT, **{"restart": QUICK, **fields})


def pid_of(lines: list[str], rank: int, generation: int = 1) -> int:
    begin = f"rank {rank} generation {generation} pid "
    return next(int(line.removeprefix(begin)) for line in lines if line.startswith(begin))


def test_each_rank_has_its_own_log_and_variables(state: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            script = "import os\nprint(os.environ['RANK'], os.environ['LOCAL_RANK'], os.environ['WORLD_SIZE'])"
            job_id = await local.submit(agents(tmp_path, script))
            assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED
            printed = [local.printed(job_id, ranks=[rank]) for rank in range(4)]
            assert printed == [["0 0 4"], ["1 1 4"], ["2 0 4"], ["3 1 4"]]
            assert [task.code for task in local.backend.store.tasks(job_id)] == [0, 0]

    asyncio.run(scenario())


def test_a_killed_rank_is_recovered_within_the_generation(state: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            job_id = await local.submit(agents(tmp_path, WAITS, "2"))
            os.kill(pid_of(await local.lines(job_id, 4), 3), signal.SIGKILL)
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation, ended.status.recoveries) == (Phase.SUCCEEDED, 1, 1)
            assert (ended.status.infrastructure_failures, ended.status.user_failures) == (1, 0)
            progress = next(step for step in local.backend.store.transitions(job_id) if step.event == "Recovered")
            node = local.backend.store.tasks(job_id)[1].node
            assert f"last: rank 3 (worker/1) on {node} killed by SIGKILL, back after 0." in progress.message
            status_file = local.backend.paths.generation_logs(job_id, 1) / "node-1/ranks.json"
            assert json.loads(status_file.read_text())["generation"] == 2

    asyncio.run(scenario())


def secret_of(pid: int) -> bytes:
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(pair for pair in pairs if pair.startswith(b"WINDLASS_GANG_SECRET=")).partition(b"=")[2]


def files_with(secrets: set[bytes], folder: Path) -> list[Path]:
    """Returns the files of a folder, and the command lines of all processes, that contain one of these secrets."""
    found = []
    for path in (*folder.rglob("*"), *Path("/proc").glob("[0-9]*/cmdline")):
        with contextlib.suppress(OSError):
            if path.is_file() and any(secret in path.read_bytes() for secret in secrets):
                found.append(path)
    return found


def test_a_stranger_cannot_end_a_job_and_each_generation_has_another_secret(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    """The stranger knows the protocol, the port and the run's id, which every user of the machine can find out."""
    script = 'import os\nprint("endpoint", os.environ["PET_MASTER_PORT"])\n' + WAITS

    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            job_id = await local.submit(agents(tmp_path, script, "9"))
            lines = await local.lines(job_id, 8)
            port = next(int(line.split()[1]) for line in lines if line.startswith("endpoint"))
            peer = {"id": "x", "node": "x", "address": "", "port": 1, "ranks": 2, "place": 1, "generation": 0}
            join = {"type": "hello", "run": f"{job_id}.1", "peer": peer}
            for order in ({"type": "close", "code": 0, "reason": ""}, join):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
                    link.sendall(b"windlass-agent-1 " + b"0" * 64 + b"\n" + json.dumps(order).encode() + b"\n")
                    answer = b"".join(iter(lambda: link.recv(65536), b""))
                assert len(answer.splitlines()) == 1  # its challenge
            first = {secret_of(pid_of(lines, rank)) for rank in range(4)}
            assert [len(secret) for secret in first] == [64]
            assert local.state(job_id).status.phase is Phase.RUNNING  # type: ignore[union-attr]
            os.kill(local.backend.store.tasks(job_id)[1].pid or 0, signal.SIGKILL)
            lines = await local.lines(job_id, 8, generation=2)
            second = {secret_of(pid_of(lines, rank, 2)) for rank in range(4)}
            assert len(first | second) == 2
            assert not files_with(first | second, state)
            await local.inject(job_id, Cancel("ada"))
            await local.end(job_id)

    asyncio.run(scenario())


def test_a_killed_agent_restarts_the_gang_and_the_agents_generation_continues(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            job_id = await local.submit(agents(tmp_path, WAITS, "3"))
            lines = await local.lines(job_id, 4)
            os.kill(pid_of(lines, 0), signal.SIGKILL)
            lines = await local.lines(job_id, 8)
            os.kill(local.backend.store.tasks(job_id)[1].pid or 0, signal.SIGKILL)
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation, ended.status.recoveries) == (Phase.SUCCEEDED, 2, 1)
            assert ended.status.last_failure is not None
            assert ended.status.last_failure.message.startswith("the agent (worker/1) on n")
            assert ended.status.last_failure.kind is FailureClass.INFRASTRUCTURE
            assert all("generation 3" in line for line in local.printed(job_id, 2))
            await await_condition(lambda: is_gone(pid_of(lines, 2, 2)), "a rank of the first generation is alive")

    asyncio.run(scenario())


def test_a_silent_agent_is_kept_for_the_grace_and_lost_after_it(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    waits = "import os, sys, time\nprint('ready', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    gate = tmp_path / "gate"

    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            patient = await local.submit(agents(tmp_path, waits, str(gate), unreachable_grace=60_000))
            hasty = await local.submit(agents(tmp_path, waits, str(gate), unreachable_grace=1_000))
            await local.lines(patient, 4)
            await local.lines(hasty, 4)
            silent = [local.backend.store.tasks(job_id)[1].pid or 0 for job_id in (patient, hasty)]
            for pid in silent:
                os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(5)  # more than the three heartbeats after which agents lose each other at the earliest
            for pid in silent:
                os.kill(pid, signal.SIGCONT)
            await local.lines(hasty, 8)  # its ranks were started again
            assert len(local.printed(patient)) == 4
            gate.touch()
            status = (await local.end(patient)).status
            assert (status.phase, status.generation, status.recoveries) == (Phase.SUCCEEDED, 1, 0)
            assert (await local.end(hasty)).status.phase is Phase.SUCCEEDED

    asyncio.run(scenario())


def test_a_failing_program_uses_up_its_restarts_and_fails_with_its_cause(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            script = "import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)"
            ended = await local.end(await local.submit(agents(tmp_path, script, restart=RestartPolicy(user_limit=2))))
            status = ended.status
            assert (status.phase, status.generation, status.user_failures) == (Phase.FAILED, 1, 3)
            assert "rank 1 (worker/0) on n" in status.message
            assert "exited with code 7; 3 failures of the program, 2 allowed" in status.message

    asyncio.run(scenario())


def test_the_error_of_a_rank_is_in_the_status(state: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            script = "import os\nif os.environ['RANK'] == '2':\n    raise FileNotFoundError('no shard 2')"
            ended = await local.end(await local.submit(agents(tmp_path, script, restart=RestartPolicy(user_limit=0))))
            assert "exited with code 1: FileNotFoundError: no shard 2" in ended.status.message

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "reason"), [(83, "Preempted"), (84, "AskedForRetry"), (85, "AskedForNoRetry"), (5, "RetryableExitCode")]
)
def test_an_agreed_exit_code_of_a_rank_reaches_the_lifecycle(
    state: Path, tmp_path: Path, bare: dict[str, str], code: int, reason: str
) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            script = f"import os, sys\nsys.exit({code} if os.environ['WINDLASS_GENERATION'] == '1' else 0)"
            policy = RestartPolicy(infrastructure_limit=0 if code == 5 else 4, retryable_exit_codes=(5,))
            ended = await local.end(await local.submit(agents(tmp_path, script, replicas=1, restart=policy)))
            assert ended.status.last_failure is not None
            assert ended.status.last_failure.reason == reason

    asyncio.run(scenario())


def test_a_stopped_gang_has_time_to_save(state: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            script = (
                "import os, signal, sys, time\n"
                "def save(*_):\n    time.sleep(0.3); print('saved', flush=True); sys.exit(83)\n"
                "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\nwhile True: time.sleep(0.02)"
            )
            job_id = await local.submit(agents(tmp_path, script))
            await local.lines(job_id, 4)
            await local.inject(job_id, Cancel("ada"))
            assert (await local.end(job_id)).status.reason == "Cancelled"
            assert local.printed(job_id).count("saved") == 4

    asyncio.run(scenario())


def test_ranks_outlive_a_controller_that_is_killed_and_recover_without_it(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare, end=False) as local:
            job_id = await local.submit(agents(tmp_path, WAITS, "2"))
            await local.phase(job_id, Phase.RUNNING)
            pid = pid_of(await local.lines(job_id, 4), 1)
        os.kill(pid, signal.SIGKILL)
        async with run_controller(state, environment=bare) as local:
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation, ended.status.recoveries) == (Phase.SUCCEEDED, 1, 1)

    asyncio.run(scenario())


def test_a_failure_keeps_its_class_under_the_next_controller(state: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    async def scenario() -> None:
        fails_twice = "import os, sys\nsys.exit(7 if int(os.environ['WINDLASS_GENERATION']) < 3 else 0)"
        policy = RestartPolicy(user_limit=2, backoff_base=1_500)
        async with run_controller(state, environment=bare, end=False) as local:
            job_id = await local.submit(agents(tmp_path, fails_twice, replicas=1, restart=policy))
            log = local.backend.paths.generation_logs(job_id, 1) / "node-0.err"
            await await_condition(
                lambda: log.exists() and "the next one waits 1.5 s" in log.read_text(), "the agent does not wait"
            )
            await local.submit(job(sys.executable, "-c", ""))  # its commit stores the agents' messages up to now
        async with run_controller(state, environment=bare) as local:
            status = (await local.end(job_id)).status
            assert (status.phase, status.user_failures, status.infrastructure_failures) == (Phase.SUCCEEDED, 2, 0)

    asyncio.run(scenario())


def test_heartbeats_and_telemetry_are_in_the_progress_of_a_job(
    state: Path, tmp_path: Path, bare: dict[str, str]
) -> None:
    async def scenario() -> None:
        async with run_controller(state, environment=bare) as local:
            job_id = await local.submit(agents(tmp_path, REPORTS))
            await local.lines(job_id, 4)

            def seen() -> dict[str, Any]:
                tasks = local.backend.store.tasks(job_id)
                known = local.state(job_id)
                assert known is not None
                return summarize_progress(rank_activity(local.backend.paths, known.job, tasks)) or {}

            await await_condition(
                lambda: seen().get("loss") and all(rank["step"] for rank in seen()["ranks"]), f"only {seen()}"
            )
            progress = seen()
            assert (progress["step"], progress["steps"], progress["loss"], progress["eta"]) == (4, 10, 2.5, 120)
            assert [rank["env"]["RANK"] for rank in progress["ranks"]] == ["0", "1", "2", "3"]
            assert progress["ranks"][3]["node"] == local.backend.store.tasks(job_id)[1].node
            await local.inject(job_id, Cancel("ada"))
            await local.end(job_id)

    asyncio.run(scenario())
