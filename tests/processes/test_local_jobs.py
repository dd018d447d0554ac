"""Jobs as processes: what happens to their ranks, and what people are told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hand import await_that, is_gone, python
from home import at_home, job

from windlass.backends.local import logs
from windlass.backends.local.client_watch import describe
from windlass.backends.local.nodes import Gpu, LocalCluster, Machine, declared_nodes
from windlass.backends.local.state_store import SubmissionOrigin
from windlass.core.lifecycle.events import Cancel, Resume, Suspend
from windlass.core.model.job import ArrayMember, Launcher, RestartPolicy, Role
from windlass.core.model.status import FailureClass, Phase

FORGIVING = RestartPolicy(user_limit=3, backoff_base=10)


def test_a_gang_ends_well(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("sh", "-c", "echo rank $RANK of $WORLD_SIZE", replicas=2, procs=2))
            assert (await home.end(job_id)).status.phase is Phase.SUCCEEDED
            assert sorted(home.printed(job_id)) == [f"rank {rank} of 4" for rank in range(4)]
            tasks = home.world.store.tasks(job_id)
            assert [(task.rank, task.role, task.replica, task.code) for task in tasks] == [
                (0, "worker", 0, 0),
                (1, "worker", 0, 0),
                (2, "worker", 1, 0),
                (3, "worker", 1, 0),
            ]
            history = [transition.after for transition in home.world.store.transitions(job_id)]
            assert list(dict.fromkeys(history)) == ["Created", "Queued", "Admitted", "Running", "Succeeded"]

    asyncio.run(story())


def test_one_rank_fails_and_the_others_are_ended(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            program = "test $RANK = 1 && exit 3; echo $$; exec sleep 1000"
            job_id = await home.submit(job("sh", "-c", program, replicas=2))
            ended = await home.end(job_id)
            assert (ended.status.phase, ended.status.reason) == (Phase.FAILED, "ExitCode")
            node = home.world.store.tasks(job_id)[1].node
            assert ended.status.message == f"rank 1 (worker/1) on {node} exited with code 3"
            assert is_gone(int(home.world.store.tasks(job_id)[0].pid or 0))

    asyncio.run(story())


def test_a_killed_rank_restarts_the_gang_whole(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            program = "test $WINDLASS_GENERATION = 2 && exit 0; test $RANK = 1 && kill -KILL $$; exec sleep 1000"
            job_id = await home.submit(job("sh", "-c", program, replicas=2))
            ended = await home.end(job_id)
            assert (ended.status.phase, ended.status.generation) == (Phase.SUCCEEDED, 2)
            failure = ended.status.last_failure
            assert failure is not None
            assert failure.kind is FailureClass.INFRASTRUCTURE
            assert failure.message.startswith("rank 1 (worker/1) on n")
            assert failure.message.endswith("killed by SIGKILL")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (83, FailureClass.PREEMPTION, "Preempted"),
        (84, FailureClass.INFRASTRUCTURE, "AskedForRetry"),
        (85, FailureClass.USER, "AskedForNoRetry"),
    ],
)
def test_a_program_declares_how_its_end_is_to_be_taken(state: Path, code: int, kind: FailureClass, reason: str) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(
                job("sh", "-c", f"test $WINDLASS_GENERATION = 2 || exit {code}", restart=FORGIVING)
            )
            failure = (await home.end(job_id)).status.last_failure
            assert failure is not None
            assert (failure.kind, failure.reason) == (kind, reason)

    asyncio.run(story())


def test_what_cannot_be_started_says_so(state: Path, tmp_path: Path) -> None:
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

    async def story() -> None:
        async with at_home(state) as home:
            for command, words in cases.items():
                ended = await home.end(await home.submit(job(*command, workdir=str(tmp_path))))
                assert ended.status.message.endswith(f": {words}")
            elsewhere = await home.end(await home.submit(job("true", workdir="/no/such folder")))
            assert "working directory '/no/such folder' does not exist" in elsewhere.status.message

    asyncio.run(story())


def test_ranks_are_told_who_they_are_and_inherit_the_clients_environment(state: Path) -> None:
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

    async def story() -> None:
        async with at_home(state) as home:
            asked = job(*python(look), array=ArrayMember("job-1", 7))
            asked = replace(asked, roles=(replace(asked.roles[0], env={"COLOUR": "job's"}),))
            client = {"PATH": os.environ["PATH"], "COLOUR": "client's", "FROM_CLIENT": "größe"}
            job_id = await home.submit(asked, SubmissionOrigin(environment=client))
            await home.end(job_id)
            assert json.loads(home.printed(job_id)[0]) == {
                "RANK": "0",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "CUDA_VISIBLE_DEVICES": "",
                "JOB_COMPLETION_INDEX": "7",
                "COLOUR": "job's",
                "FROM_CLIENT": "größe",
            }

    asyncio.run(story())


def test_the_ranks_of_a_generation_meet_at_a_port_of_their_own(state: Path) -> None:
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

    async def story() -> None:
        async with at_home(state) as home:
            jobs = [await home.submit(job(*python(meet), replicas=2)) for _ in range(2)]
            for job_id in jobs:
                assert (await home.end(job_id)).status.phase is Phase.SUCCEEDED
                assert sorted(home.printed(job_id)) == ["hello", "listening"]

    asyncio.run(story())


def test_torchrun_is_started_once_a_replica(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            asked = job(
                "sh", "-c", "echo $PET_NODE_RANK $PET_NPROC_PER_NODE", replicas=2, procs=4, launcher=Launcher.TORCHRUN
            )
            job_id = await home.submit(asked)
            await home.end(job_id)
            assert sorted(home.printed(job_id)) == ["0 4", "1 4"]

    asyncio.run(story())


def with_real_gpus() -> LocalCluster:
    gpus = tuple(Gpu(f"GPU-{letter}", "H200") for letter in "abcd")
    return declared_nodes(Machine(4000, 2**33, gpus), 2, 2)


def test_replicas_get_devices_of_their_own_and_keep_them_over_a_new_controller(state: Path) -> None:
    show = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000")

    async def story() -> None:
        async with at_home(state, with_real_gpus(), end=False) as home:
            first = await home.submit(job(*show, replicas=2))
            seen = await home.lines(first, 2)
        async with at_home(state, with_real_gpus()) as home:
            second = await home.submit(job(*show, replicas=2))
            seen += await home.lines(second, 2)
            assert sorted(seen) == ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
            await home.happen(first, Cancel())
            await home.end(first)
            third = await home.submit(job(*show))
            assert (await home.lines(third, 1))[0] in seen[:2]

    asyncio.run(story())


def test_a_suspended_gang_leaves_and_comes_back(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("sh", "-c", "test $WINDLASS_GENERATION = 2 || exec sleep 1000"))
            await home.phase(job_id, Phase.RUNNING)
            await home.happen(job_id, Suspend())
            await home.phase(job_id, Phase.SUSPENDED)
            assert is_gone(int(home.world.store.tasks(job_id)[0].pid or 0))
            await home.happen(job_id, Resume())
            assert (await home.end(job_id)).status.phase is Phase.SUCCEEDED

    asyncio.run(story())


def test_a_forgotten_job_leaves_neither_rows_nor_logs(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("echo", "hello", ttl=0))
            await home.until_gone(job_id)
            assert home.world.store.transitions(job_id) == home.world.store.tasks(job_id) == []
            await_that(lambda: not home.world.paths.job_logs(job_id).exists(), "logs that stay")

    asyncio.run(story())


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who submits, and can be killed."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_job_ends_when_the_client_that_owns_it_is_killed(state: Path, client: subprocess.Popen[bytes]) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("sleep", "1000"), SubmissionOrigin(owner=describe(client.pid)))
            other = await home.submit(job("sleep", "1000"))
            await home.phase(job_id, Phase.RUNNING)
            client.kill()
            client.wait()
            ended = await home.end(job_id)
            assert (ended.status.reason, ended.status.message) == ("Cancelled", "cancelled by the end of its terminal")
            assert (await home.phase(other, Phase.RUNNING)).status.target is None

    asyncio.run(story())


def test_a_job_whose_owner_went_meanwhile_is_cancelled_by_the_next_controller(
    state: Path, client: subprocess.Popen[bytes]
) -> None:
    async def story() -> None:
        async with at_home(state, end=False) as home:
            job_id = await home.submit(job("sleep", "1000"), SubmissionOrigin(owner=describe(client.pid)))
            await home.phase(job_id, Phase.RUNNING)
        client.kill()
        client.wait()
        async with at_home(state) as home:
            assert (await home.end(job_id)).status.reason == "Cancelled"

    asyncio.run(story())


def test_output_can_be_followed_while_it_comes(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            gate = state / "gate"
            os.mkfifo(gate)
            job_id = await home.submit(job("sh", "-c", f"echo one; read x < '{gate}'; echo two; printf three"))
            await home.lines(job_id, 1)
            (file,) = logs.log_files(home.world.paths, job_id, 1)
            cursor = logs.Cursor(file)
            assert [line.text for line in cursor.poll()] == ["one"]
            assert cursor.poll() == []
            gate.write_text("go\n")
            await home.end(job_id)
            assert [line.text for line in cursor.poll()] == ["two"]
            assert [line.text for line in cursor.rest()] == ["three"]
            cursor.close()

    asyncio.run(story())


def test_signals_to_a_rank_by_its_own_shell_are_named(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            job_id = await home.submit(job("sh", "-c", "sh -c 'kill -ABRT $$'; exit $?"))
            assert "SIGABRT" in (await home.end(job_id)).status.message

    asyncio.run(story())


def test_several_roles_share_one_gang(state: Path) -> None:
    async def story() -> None:
        async with at_home(state) as home:
            asked = job("true")
            say = ("sh", "-c", "echo $RANK $WINDLASS_ROLE $WINDLASS_REPLICA")
            roles = (Role("chief", 1, 1, {"gpu": 1}, say), Role("worker", 2, 1, {"gpu": 1}, say))
            job_id = await home.submit(replace(asked, roles=roles))
            await home.end(job_id)
            assert sorted(home.printed(job_id)) == ["0 chief 0", "1 worker 0", "2 worker 1"]

    asyncio.run(story())
