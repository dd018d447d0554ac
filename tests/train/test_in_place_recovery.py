"""Ranks and nodes killed at any moment: survivors continue in the same process, and no progress is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forked_ranks import agent_environment

from windlass.controlplane.processes import free_port

HERE = Path(__file__).parent
STEPS, RANKS = 32, 3
TIMEOUT_S = 90.0


class Training:
    """The agents of one run, and the output of their ranks so far: by pid, then by step."""

    def __init__(self, folder: Path, agents: list[list[str]], dropout: float) -> None:
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, **agent_environment(), "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"}
        script = [str(HERE / "recovery_script.py"), str(folder), str(STEPS), "0.03", str(dropout)]
        self.folder = folder
        self.agents = []
        for number, options in enumerate(agents):
            with (folder / f"agent-{number}.out").open("w") as out:
                command = [sys.executable, "-m", "windlass.agent", *options, *script]
                self.agents.append(subprocess.Popen(command, env=env, stdout=out, stderr=out))
            if number == 0 and len(agents) > 1:
                self.until(lambda: self.agents[0].poll() is None)

    @property
    def output(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("agent-*.out")))

    def ranks(self) -> dict[int, list[list[str]]]:
        files = self.folder.glob("rank-*.txt")
        lines = {int(path.stem.removeprefix("rank-")): path.read_text().splitlines() for path in files}
        return {pid: [line.split() for line in written] for pid, written in lines.items()}

    def steps_of(self, pid: int) -> int:
        return len(self.ranks().get(pid, ()))

    def until(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < until, self.output
            time.sleep(0.02)

    def ends(self, *codes: int) -> float:
        """The final loss."""
        assert [agent.wait(TIMEOUT_S) for agent in self.agents] == list(codes), self.output
        return float(self.output.rpartition("in the end ")[2].split()[0])

    @property
    def forgotten(self) -> int:
        """Number of survivors that waited for a lost message of gloo and were respawned."""
        return self.output.count(": started anew")

    def samples(self) -> list[list[int]]:
        """The samples of each step, over all ranks, in the last generation that tried it."""
        found: dict[int, dict[int, list[int]]] = {}
        for lines in self.ranks().values():
            for step, generation, indices in lines:
                tried = found.setdefault(int(step), {}).setdefault(int(generation), [])
                tried += [int(each) for each in indices.split(",")]
        return [sorted(found[step][max(found[step])]) for step in sorted(found)]


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    made: list[Training] = []

    def start(*agents: list[str], dropout: float = 0.0) -> Training:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Training(folder, list(agents), dropout))
        return made[-1]

    yield start
    for each in made:
        for agent in each.agents:
            agent.kill()
            agent.wait()


ALONE = ["--nproc-per-node", str(RANKS), "--max-restarts", "10"]


@pytest.fixture(scope="module", params=[0.0, 0.1])
def undisturbed(request, tmp_path_factory) -> tuple[float, float, list[list[int]]]:
    ran = Training(tmp_path_factory.mktemp("undisturbed"), [ALONE], request.param)
    return request.param, ran.ends(0), ran.samples()


def test_ranks_killed_at_any_moment_cost_no_progress(training, undisturbed):
    dropout, loss, samples = undisturbed
    run, chance = training(ALONE, dropout=dropout), random.Random(7)  # noqa: S311 - to be the same each time
    run.until(lambda: sum(run.steps_of(pid) > 2 for pid in run.ranks()) == RANKS)
    for round_ in (1, 2):
        time.sleep(chance.uniform(0.0, 0.3))
        alive = sorted(pid for pid in run.ranks() if Path(f"/proc/{pid}").exists())
        os.kill(chance.choice(alive), signal.SIGKILL)
        run.until(lambda count=round_: run.output.count(" trains again after ") == count)
    assert run.ends(0) == pytest.approx(loss, abs=1e-6)
    assert run.samples() == samples
    assert len(run.ranks()) == RANKS + 2 + run.forgotten
    assert max(run.steps_of(pid) for pid in run.ranks()) >= STEPS


def test_a_survivor_that_does_not_answer_is_respawned_beside_one_that_does(training, undisturbed):
    dropout, loss, samples = undisturbed
    run = training(ALONE, dropout=dropout)
    run.until(lambda: sum(run.steps_of(pid) > 2 for pid in run.ranks()) == RANKS)
    late, lost, stays = run.ranks()
    os.kill(late, signal.SIGSTOP)
    os.kill(lost, signal.SIGKILL)
    run.until(lambda: "1 rank went on, 2 started anew" in run.output)
    assert run.forgotten == 1
    assert run.ends(0) == pytest.approx(loss, abs=1e-6)
    assert run.samples() == samples
    assert run.steps_of(stays) >= STEPS


def test_lost_nodes_are_removed_one_after_the_other(training, undisturbed):
    dropout, loss, samples = undisturbed
    if dropout:
        pytest.skip("on fewer ranks other masks are drawn")
    node = ["--nnodes", "1:3", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    meeting = ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-conf"]
    first = [*node, *meeting, "is_host=true,last_call_timeout=20"]
    other = [*node, *meeting, "is_host=false,last_call_timeout=20"]
    run = training(first, other, other)
    run.until(lambda: sum(run.steps_of(pid) > 2 for pid in run.ranks()) == RANKS)
    run.agents[2].kill()
    run.until(lambda: "(2 ranks) resumes" in run.output)
    done = {pid: run.steps_of(pid) for pid in run.ranks()}
    run.until(lambda: sum(run.steps_of(pid) > count + 2 for pid, count in done.items()) == 2)
    run.agents[1].kill()
    assert run.ends(0, -signal.SIGKILL, -signal.SIGKILL) == pytest.approx(loss, abs=1e-6)
    assert run.samples() == samples
    assert len(run.ranks()) == RANKS + run.forgotten
    assert "(1 rank) resumes" in run.output


def test_a_loss_during_recovery_is_handled_by_the_next_stage(training, undisturbed):
    dropout, loss, samples = undisturbed
    run = training(ALONE, dropout=dropout)
    run.until(lambda: sum(run.steps_of(pid) > 8 for pid in run.ranks()) == RANKS)
    first, second, _ = sorted(run.ranks())
    os.kill(first, signal.SIGKILL)
    run.until(lambda: "generation 2 after" in run.output)
    with contextlib.suppress(ProcessLookupError):
        os.kill(second, signal.SIGKILL)
    assert run.ends(0) == pytest.approx(loss, abs=1e-6)
    assert run.samples() == samples
