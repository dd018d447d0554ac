"""Jobs as processes: the life of their ranks, and the messages for people."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from local_controller import job, run_controller
from supervisor_driver import is_gone, python, wait_until

from windlass.backends.local import logs
from windlass.backends.local.client_watch import process_identity
from windlass.backends.local.nodes import Gpu, LocalCluster, Machine, declare_cluster
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.core.lifecycle.events import Cancel, Resume, Suspend
from windlass.core.model.job import ArrayMember, Launcher, RestartPolicy, Role
from windlass.core.model.status import FailureClass, Phase

THREE_RESTARTS = RestartPolicy(user_limit=3, backoff_base=10)


def test_a_gang_succeeds(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("sh", "-c", "echo rank $RANK of $WORLD_SIZE", replicas=2, procs=2))
            assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED
            assert sorted(local.printed(job_id)) == [f"rank {rank} of 4" for rank in range(4)]
            tasks = local.backend.store.tasks(job_id)
            assert [(task.rank, task.role, task.replica, task.code) for task in tasks] == [
                (0, "worker", 0, 0),
                (1, "worker", 0, 0),
                (2, "worker", 1, 0),
                (3, "worker", 1, 0),
            ]
            history = [transition.after for transition in local.backend.store.transitions(job_id)]
            assert list(dict.fromkeys(history)) == ["Created", "Queued", "Admitted", "Running", "Succeeded"]

    asyncio.run(scenario())


def test_a_failing_rank_ends_the_other_ranks(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            program = "test $RANK = 1 && exit 3; echo $$; exec sleep 1000"
            job_id = await local.submit(job("sh", "-c", program, replicas=2))
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.reason) == (Phase.FAILED, "ExitCode")
            node = local.backend.store.tasks(job_id)[1].node
            assert ended.status.message == f"rank 1 (worker/1) on {node} exited with code 3"
            assert is_gone(int(local.backend.store.tasks(job_id)[0].pid or 0))

    asyncio.run(scenario())


def test_a_killed_rank_restarts_the_gang_whole(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            program = "test $WINDLASS_GENERATION = 2 && exit 0; test $RANK = 1 && kill -KILL $$; exec sleep 1000"
            job_id = await local.submit(job("sh", "-c", program, replicas=2))
            ended = await local.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            failure = ended.status.last_failure
            assert failure is not None
            assert failure.kind is FailureClass.INFRASTRUCTURE
            assert failure.message.startswith("rank 1 (worker/1) on n")
            assert failure.message.endswith("killed by SIGKILL")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (83, FailureClass.PREEMPTION, "Preempted"),
        (84, FailureClass.INFRASTRUCTURE, "AskedForRetry"),
        (85, FailureClass.USER, "AskedForNoRetry"),
    ],
)
def test_an_agreed_exit_code_decides_the_failure_class(state: Path, code: int, kind: FailureClass, reason: str) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(
                job("sh", "-c", f"test $WINDLASS_GENERATION = 2 || exit {code}", restart=THREE_RESTARTS)
            )
            failure = (await local.end(job_id)).status.last_failure
            assert failure is not None
            assert (failure.kind, failure.reason) == (kind, reason)

    asyncio.run(scenario())


def test_a_command_that_cannot_be_started_fails_with_the_cause(state: Path, tmp_path: Path) -> None:
    script = tmp_path / "mein Skript ü.sh"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    plain = tmp_path / "plain.txt"
    plain.write_text("hello")
    cases = {
        ("no-such-command",): "command not found: 'no-such-command' in PATH",
        ("/no/such/command",): "command not found: '/no/such/command'",
        (f"./{script.name}",): f"cannot run './{script.name}': the interpreter in its first line does not exist",
        (str(plain),): f"permission denied: {str(plain)!r} is not executable",
    }

    async def scenario() -> None:
        async with run_controller(state) as local:
            for command, message in cases.items():
                ended = await local.end(await local.submit(job(*command, workdir=str(tmp_path))))
                assert ended.status.message.endswith(f": {message}")
            elsewhere = await local.end(await local.submit(job("true", workdir="/no/such folder")))
            assert "working directory '/no/such folder' does not exist" in elsewhere.status.message

    asyncio.run(scenario())


def test_a_gang_whose_nodes_have_changed_since_the_plan_is_not_started(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            gangs = local.backend._gangs
            nodes, gangs._nodes = gangs._nodes, {}
            job_id = await local.submit(job("true", restart=THREE_RESTARTS))
            stale = await local.until(job_id, lambda found: found.status.last_failure is not None)
            assert stale.status.last_failure is not None
            assert stale.status.last_failure.message == "node n1 is gone"
            assert local.backend.store.tasks(job_id)[0].pid is None
            gangs._nodes = nodes
            assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED

    asyncio.run(scenario())


def test_ranks_get_their_variables_and_inherit_the_clients_environment(state: Path) -> None:
    wanted = [
        "RANK",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "CUDA_VISIBLE_DEVICES",
        "JOB_COMPLETION_INDEX",
        "COLOUR",
        "FROM_CLIENT",
    ]
    look = f"import os, json; print(json.dumps({{name: os.environ.get(name) for name in {wanted}}}))"

    async def scenario() -> None:
        async with run_controller(state) as local:
            wanted = job(*python(look), array=ArrayMember("job-1", 7))
            wanted = replace(wanted, roles=(replace(wanted.roles[0], env={"COLOUR": "job's"}),))
            client = {"PATH": os.environ["PATH"], "COLOUR": "client's", "FROM_CLIENT": "größe"}
            job_id = await local.submit(wanted, SubmissionOrigin(environment=client))
            await local.end(job_id)
            assert json.loads(local.printed(job_id)[0]) == {
                "RANK": "0",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "CUDA_VISIBLE_DEVICES": "",
                "JOB_COMPLETION_INDEX": "7",
                "COLOUR": "job's",
                "FROM_CLIENT": "größe",
            }

    asyncio.run(scenario())


def test_the_ranks_of_a_generation_connect_at_a_port_of_their_own(state: Path) -> None:
    meet = """
import os, socket, sys
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    server = socket.create_server(address)
    print("listening", flush=True)
    server.accept()[0].sendall(b"hello")
else:
    while True:
        try:
            print(socket.create_connection(address).recv(9).decode()); break
        except ConnectionRefusedError: pass
"""

    async def scenario() -> None:
        async with run_controller(state) as local:
            jobs = [await local.submit(job(*python(meet), replicas=2)) for _ in range(2)]
            for job_id in jobs:
                assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED
                assert sorted(local.printed(job_id)) == ["hello", "listening"]

    asyncio.run(scenario())


def test_torchrun_is_started_once_per_replica(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            wanted = job(
                "sh", "-c", "echo $PET_NODE_RANK $PET_NPROC_PER_NODE", replicas=2, procs=4, launcher=Launcher.TORCHRUN
            )
            job_id = await local.submit(wanted)
            await local.end(job_id)
            assert sorted(local.printed(job_id)) == ["0 4", "1 4"]

    asyncio.run(scenario())


def cluster_with_real_gpus() -> LocalCluster:
    gpus = tuple(Gpu(f"GPU-{letter}", "H200") for letter in "abcd")
    return declare_cluster(Machine(4000, 2**33, gpus), 2, 2)


def test_replicas_get_devices_of_their_own_and_keep_them_under_a_new_controller(state: Path) -> None:
    show = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000")

    async def scenario() -> None:
        async with run_controller(state, cluster_with_real_gpus(), end=False) as local:
            first = await local.submit(job(*show, replicas=2))
            seen = await local.lines(first, 2)
        async with run_controller(state, cluster_with_real_gpus()) as local:
            second = await local.submit(job(*show, replicas=2))
            seen += await local.lines(second, 2)
            assert sorted(seen) == ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
            await local.inject(first, Cancel())
            await local.end(first)
            third = await local.submit(job(*show))
            assert (await local.lines(third, 1))[0] in seen[:2]

    asyncio.run(scenario())


def test_a_suspended_gang_ends_and_starts_again_when_resumed(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await local.phase(job_id, Phase.RUNNING)
            await local.inject(job_id, Suspend())
            await local.phase(job_id, Phase.SUSPENDED)
            assert is_gone(int(local.backend.store.tasks(job_id)[0].pid or 0))
            await local.inject(job_id, Resume())
            assert (await local.end(job_id)).status.phase is Phase.SUCCEEDED

    asyncio.run(scenario())


def test_a_forgotten_job_leaves_neither_rows_nor_logs(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("echo", "hello", ttl=0))
            await local.until_gone(job_id)
            assert local.backend.store.transitions(job_id) == local.backend.store.tasks(job_id) == []
            wait_until(lambda: not local.backend.paths.job_logs(job_id).exists(), "the logs still exist")

    asyncio.run(scenario())


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    """A client process that owns jobs and can be killed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_job_ends_when_the_client_that_owns_it_is_killed(state: Path, client: subprocess.Popen[bytes]) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("sleep", "1000"), SubmissionOrigin(owner=process_identity(client.pid)))
            other = await local.submit(job("sleep", "1000"))
            await local.phase(job_id, Phase.RUNNING)
            client.kill()
            client.wait()
            ended = await local.end(job_id)
            assert (ended.status.reason, ended.status.message) == ("Cancelled", "cancelled by the end of its terminal")
            assert (await local.phase(other, Phase.RUNNING)).status.target is None

    asyncio.run(scenario())


def test_a_job_whose_client_ended_without_a_controller_is_cancelled_by_the_next_one(
    state: Path, client: subprocess.Popen[bytes]
) -> None:
    async def scenario() -> None:
        async with run_controller(state, end=False) as local:
            job_id = await local.submit(job("sleep", "1000"), SubmissionOrigin(owner=process_identity(client.pid)))
            await local.phase(job_id, Phase.RUNNING)
        client.kill()
        client.wait()
        async with run_controller(state) as local:
            assert (await local.end(job_id)).status.reason == "Cancelled"

    asyncio.run(scenario())


def test_output_can_be_followed_while_it_is_written(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            gate = state / "gate"
            os.mkfifo(gate)
            job_id = await local.submit(job("sh", "-c", f"echo one; read x < '{gate}'; echo two; printf three"))
            await local.lines(job_id, 1)
            (file,) = logs.log_files(local.backend.paths, job_id, 1)
            cursor = logs.LogCursor(file)
            assert [line.text for line in cursor.poll()] == ["one"]
            assert cursor.poll() == []
            gate.write_text("go\n")
            await local.end(job_id)
            assert [line.text for line in cursor.poll()] == ["two"]
            assert [line.text for line in cursor.rest()] == ["three"]
            cursor.close()

    asyncio.run(scenario())


def test_a_signal_reported_by_a_ranks_shell_is_named(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            job_id = await local.submit(job("sh", "-c", "sh -c 'kill -ABRT $$'; exit $?"))
            assert "SIGABRT" in (await local.end(job_id)).status.message

    asyncio.run(scenario())


def test_several_roles_share_one_gang(state: Path) -> None:
    async def scenario() -> None:
        async with run_controller(state) as local:
            wanted = job("true")
            print_rank = ("sh", "-c", "echo $RANK $WINDLASS_ROLE $WINDLASS_REPLICA")
            roles = (Role("chief", 1, 1, {"gpu": 1}, print_rank), Role("worker", 2, 1, {"gpu": 1}, print_rank))
            job_id = await local.submit(replace(wanted, roles=roles))
            await local.end(job_id)
            assert sorted(local.printed(job_id)) == ["0 chief 0", "1 worker 0", "2 worker 1"]

    asyncio.run(scenario())
