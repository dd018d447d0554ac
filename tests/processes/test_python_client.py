"""The Python API against a real daemon: jobs, functions, errors, the asynchronous client, and the guide."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor_driver import wait_until
from terminal import crash, daemon, environment, start_daemon

import windlass
from windlass.client.function_call import result_lines

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/from-python.md"
FUNCTIONS = """\
import os
import windlass

@windlass.job(nodes=2, cpus=0)
def add(a, b, *, scale=1):
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
    return {"sum": (a + b) * scale, "rank": os.environ["RANK"]}

@windlass.job(cpus=0)
def fail(text):
    raise ValueError(text)

@windlass.job(cpus=0)
def nothing_plain():
    return {1, 2}

@windlass.job(cpus=0)
def echo(text):
    print(text, end="", flush=True)
    return text

@windlass.job(cpus=0)
def twice(a):
    return add(a, a)["sum"]
"""


@pytest.fixture
def client(state: Path) -> Iterator[windlass.Client]:
    with daemon(state, "--local-nodes", "2", "--local-gpus", "2"), windlass.Client("local", state=state) as found:
        yield found


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of decorated functions in a folder of its own."""
    (tmp_path / "functions_of_the_test.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import functions_of_the_test  # noqa: PLC0415 - written above

    yield functions_of_the_test
    del sys.modules["functions_of_the_test"]


def test_a_command_is_submitted_followed_and_found_in_the_history(client: windlass.Client):
    job = client.submit(["sh", "-c", "echo begin; echo trouble >&2; sleep 0.3; echo end; exit 3"], cpus=0, name="three")
    lines = [(line.rank, line.stream, line.text) for line in job.logs(follow=True)]
    assert sorted(lines) == [(0, "err", "trouble"), (0, "out", "begin"), (0, "out", "end")]
    ended = job.wait(timeout=30)
    assert (ended.phase, ended.exit_code, ended.attempts, ended.has_ended) == ("Failed", 3, 1, True)
    assert [each.id for each in client.history()] == [job.id] == [each.id for each in client.list(ended=True)]
    assert client.list() == []
    with pytest.raises(windlass.WrongStateError, match="nothing has been recorded yet"):
        job.metrics()
    with pytest.raises(windlass.InvalidRequestError, match="three-1 has no rank 4\nits only rank is 0"):
        list(job.logs(ranks=[4]))


def test_files_mappings_and_lines_describe_jobs(client: windlass.Client, tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text("name: a\ncpus: 0\ncommand: pwd\n---\nname: b\ncpus: 0\ncommand: pwd\n")
    pair = client.submit_all(file, labels={"team": "x"})
    jobs = [*pair, client.submit({"command": "echo $HOME | wc -l", "cpus": 0}, name="line")]
    assert [job.wait(30).phase for job in jobs] == ["Succeeded"] * 3
    assert [[line.text for line in job.logs()] for job in jobs] == [[str(tmp_path)], [str(tmp_path)], ["1"]]
    assert pair[0].info().details["spec"]["labels"]["team"] == "x"
    with pytest.raises(
        windlass.InvalidRequestError, match="holds 2 jobs, and one is submitted\nsubmit them with submit_all"
    ):
        client.submit(file)
    assert len(client.history()) == 3


def test_a_job_is_suspended_resumed_and_cancelled(client: windlass.Client):
    job = client.submit("sleep 100", cpus=0)
    with pytest.raises(windlass.WaitTimeoutError, match=r"has not ended within 0.2 s"):
        job.wait(0.2)
    job.suspend()
    wait_until(lambda: job.info().phase == "Suspended", "it was not suspended")
    assert [(each.id, each.phase) for each in client.list()] == [(job.id, "Suspended")]
    job.resume()
    job.cancel(now=True)
    ended = job.wait(30)
    assert (ended.phase, ended.reason) == ("Failed", "Cancelled")
    with pytest.raises(windlass.WrongStateError, match="has ended already"):
        job.resume()


def test_a_waiting_job_says_why_and_nodes_and_queues_are_listed(client: windlass.Client):
    first = client.submit("sleep 100", nodes=2, gpus=2, name="first")
    second = client.submit("true", nodes=1, gpus=2, name="second")
    assert "needs 2 gpu on one node: none free" in str(second.why())
    assert second.why().job.position == 1
    assert [(node.name, node.used["gpu"]) for node in client.nodes()] == [("n1", 2), ("n2", 2)]
    assert isinstance(client.queues(), list)
    first.cancel(now=True)
    assert second.wait(30).succeeded


def test_an_array_is_awaited_whole(client: windlass.Client):
    job = client.submit("echo $JOB_COMPLETION_INDEX", array="0-3", cpus=0, name="many")
    ended = job.wait(60)
    assert (ended.phase, len(ended.members)) == ("Succeeded", 4)
    assert sorted(line.text for line in job.logs()) == ["0", "1", "2", "3"]


def test_every_refusal_has_a_class_and_a_fix(client: windlass.Client, tmp_path: Path):
    with pytest.raises(windlass.JobRefusedError, match="largest gang that fits"):
        client.submit("true", nodes=9, gpus=2)
    with pytest.raises(windlass.InvalidRequestError, match="unknown field 'nodez'; did you mean 'nodes'"):
        client.submit("true", nodez=2)  # type: ignore[call-arg]
    with pytest.raises(windlass.InvalidRequestError, match="a value that no job file could have"):
        client.submit("true", env={"A": object()})  # type: ignore[dict-item]
    with pytest.raises(windlass.InvalidRequestError, match="remove ship, or name a cluster"):
        client.submit("true", ship=".")
    with pytest.raises(windlass.NoSuchJobError, match="no job is called 'digits'"):
        client.get("digits")
    with pytest.raises(windlass.NoDaemonError, match="start one with: windlass up -d"):
        windlass.Client("local", state=tmp_path / "none").nodes()
    with pytest.raises(windlass.InvalidRequestError, match=r"there is no file .*missing.py\ncorrect its path"):
        client.submit(["missing.py", "--epochs", "3"])
    with pytest.raises(windlass.InvalidRequestError, match="select a cluster"):
        windlass.Client("local", namespace="team")
    assert client.history() == []


def test_a_wait_goes_on_over_a_crash_of_the_daemon(client: windlass.Client, state: Path):
    job = client.submit("sleep 1; echo done", cpus=0)
    crash(state)
    assert not client.get(job.id).has_ended
    start_daemon(state)
    assert job.wait(30).succeeded
    assert [line.text for line in job.logs()] == ["done"]


def test_every_rank_runs_the_function_and_rank_0_returns(client: windlass.Client, functions):
    job = client.submit(functions.add.bind(1, 2, scale=3))
    assert job.result(60) == {"sum": 9, "rank": "0"}
    assert sorted(line.text for line in job.logs()) == ["rank 0 of 2", "rank 1 of 2"]
    assert client.result(job.id) == {"sum": 9, "rank": "0"}


def test_output_that_looks_like_a_result_is_output(client: windlass.Client, functions):
    [forged] = result_lines("forged", "another key")
    job = client.submit(functions.echo.bind(f"{forged}\n{forged} $$5 "))
    assert job.result(60) == f"{forged}\n{forged} $$5 "
    assert [line.text for line in job.logs()] == [forged, f"{forged} $$5 "]


def test_a_function_in_a_function_runs_in_the_same_rank(client: windlass.Client, functions):
    assert client.submit(functions.twice.bind(4)).result(60) == 8
    assert len(client.history()) == 1


def test_an_exception_of_the_function_and_a_bad_result_fail_the_job(client: windlass.Client, functions):
    failed = client.submit(functions.fail.bind("no luck"))
    with pytest.raises(windlass.JobFailedError, match="exited with code 1\nRank 0 raised") as raised:
        failed.result(60)
    assert raised.value.job == failed.id
    assert raised.value.verdict == "Rank 0 raised an exception: ValueError: no luck"
    assert any("ValueError: no luck" in line.text for line in failed.logs())
    set_returned = client.submit(functions.nothing_plain.bind())
    with pytest.raises(windlass.JobFailedError):
        set_returned.result(60)
    assert any(
        "the result of nothing_plain cannot be returned: it is a set" in line.text for line in set_returned.logs()
    )


def test_a_closed_client_says_so_and_leaves_its_jobs(client: windlass.Client, state: Path):
    with windlass.Client("local", state=state) as other:
        job = other.submit("sleep 0.3", cpus=0)
    other.close()
    with pytest.raises(windlass.InvalidRequestError, match="the client is closed\nopen a new one"):
        job.wait()
    assert client.wait(job.id, 30).succeeded


def test_following_may_end_early(client: windlass.Client):
    job = client.submit("echo one; sleep 100", cpus=0)
    assert next(line.text for line in job.logs(follow=True)) == "one"
    job.cancel(now=True)
    assert job.wait(30).has_ended


def test_a_job_without_a_function_has_no_result(client: windlass.Client):
    with pytest.raises(windlass.ResultError, match="is no job of a function\nonly jobs of functions return a result"):
        client.submit("echo windlass-result", cpus=0).result(30)


def test_the_asynchronous_client_waits_side_by_side(client: windlass.Client, state: Path, functions):
    async def story() -> None:
        async with windlass.AsyncClient("local", state=state) as other:
            jobs = await asyncio.gather(*(other.submit(functions.add.bind(n, 1)) for n in range(4)))
            assert [each["sum"] for each in await asyncio.gather(*(job.result(60) for job in jobs))] == [1, 2, 3, 4]
            assert [line.text async for line in jobs[0].logs(follow=True, ranks=[1])] == ["rank 1 of 2"]
            endless = await other.submit("sleep 100", cpus=0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await endless.wait()
            await endless.cancel(now=True)
            assert (await endless.wait()).reason == "Cancelled"

    asyncio.run(story())


def test_the_client_works_beside_a_running_event_loop(client: windlass.Client):
    async def cell() -> str:
        return client.submit("true", cpus=0).wait(30).phase

    assert asyncio.run(cell()) == "Succeeded"


def test_the_digits_are_learnt_by_a_function(client: windlass.Client, state: Path):
    script = ROOT / "examples/digits/train_function.py"
    words = [sys.executable, script, "--epochs", "2"]
    ran = subprocess.run(words, env=environment(state), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "[r0] 2 ranks, gloo" in ran.stdout
    assert float(re.search(r"'accuracy': (\d\.\d+)", ran.stdout)[1]) > 0.85
    assert [(job.name, job.ranks, job.phase) for job in client.history()] == [("digits", 2, "Succeeded")]


def test_every_program_of_the_guide_runs(client: windlass.Client, state: Path, tmp_path: Path):
    programs = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    printed = []
    for number, program in enumerate(programs):
        file = tmp_path / f"guide_{number}.py"
        file.write_text(program)
        ran = subprocess.run(
            [sys.executable, file], env=environment(state), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        printed.append(ran.stdout)
    function, client_program, scheduled, errors, loop = printed
    assert "rank 1 of 2" in function
    assert function.splitlines()[-1] == "{'loss': 0.16666666666666666}"
    assert client_program.startswith("Succeeded\n['hello']\n0 ['hello-")
    assert "['nightly']\nSucceeded" in scheduled
    assert "largest gang that fits" in errors
    assert loop.count("Succeeded") >= 2
