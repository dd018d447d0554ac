"""A script sees equal variables under torchrun, under Windlass, and under a torchrun that Windlass configures."""

import json
import os
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from forked_ranks import ForkedScript, start_torchrun

from windlass.controlplane.processes import free_port
from windlass.core.model.job import Job, Launcher, Role
from windlass.launch.ranks import ranks_of
from windlass.launch.torchrun import StoreAddress, environment

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed: pip install windlass-train[train]"
)

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
BASE = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LC_CTYPE": "C.UTF-8"}
"""Variables of every process. Python itself sets LC_CTYPE where it starts without a locale."""
WRITES_ITS_ENVIRONMENT = """\
import json, os, sys
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    json.dump(dict(os.environ), file)
"""
ADDS_UP_ITS_RANKS = """\
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
open(f"{sys.argv[1]}/{dist.get_rank()}", "w").write(str(total.item()))
dist.destroy_process_group()
"""
AGENT_VARIABLES = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}
"""Variables between torchrun's agent and its workers; without such an agent they have no meaning."""
DIFFERENT = {"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "MASTER_PORT"}
"""torchrun's agent hosts the store, here rank 0 does; each run has its own id and port."""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


def gang(launcher, command, **role):
    described = Role(procs=2, resources={"cpu": 2000}, command=command, **role)
    return Job("digits", (described,), launcher=launcher)


def processes_of(job, port):
    """Yields command and variables of each rank's process, as a backend starts it."""
    for rank in ranks_of(job):
        variables = environment(
            job, rank, job_id="digits-1", generation=1, node="n1", store=StoreAddress("127.0.0.1", port)
        )
        yield job.roles[0].command, variables


def run_all(processes):
    """Starts every (command, variables) and waits for all; kills the others when one fails."""
    with ExitStack() as stack:
        started = []
        for command, variables in processes:
            process = start({**BASE, **variables}, command)
            started.append(process)
            stack.callback(process.kill)
        for process in started:
            process.finish()


def start(variables, command):
    """Starts Python's command in a process that is forked, because the import of torch takes seconds."""
    python, *words = command
    assert python == sys.executable
    if words[:2] == TORCHRUN[1:]:
        return start_torchrun(variables, *words[2:])
    return ForkedScript(Path(words[0]), *words[1:], env=variables)


def variables_in(folder: Path):
    """Returns the variables that each rank's script saw beyond the common environment."""
    files = sorted(folder.iterdir(), key=lambda path: int(path.name))
    return [{k: v for k, v in json.loads(file.read_text()).items() if k not in BASE} for file in files]


def test_a_script_sees_the_variables_that_torchrun_sets(script, tmp_path):
    path = script(WRITES_ITS_ENVIRONMENT)
    folders = {name: tmp_path / name for name in ("torchrun", "windlass", "both")}
    for folder in folders.values():
        folder.mkdir()
    port = str(free_port())
    options = ["--nnodes=2", "--nproc-per-node=2", "--role=worker", "--master-addr=127.0.0.1", f"--master-port={port}"]
    agents = [
        ([*TORCHRUN, *options, f"--node-rank={node}", path, str(folders["torchrun"])], {"OMP_NUM_THREADS": "1"})
        for node in range(2)
    ]
    plain = gang(Launcher.PLAIN, (sys.executable, path, str(folders["windlass"])), replicas=2)
    both = gang(Launcher.TORCHRUN, (*TORCHRUN, path, str(folders["both"])), replicas=2)
    run_all([*agents, *processes_of(plain, free_port()), *processes_of(both, free_port())])

    reference, plain_variables, variables = (variables_in(folders[name]) for name in ("torchrun", "windlass", "both"))
    assert [rank["RANK"] for rank in plain_variables] == ["0", "1", "2", "3"]
    for expected, alone, configured in zip(reference, plain_variables, variables, strict=True):
        names = expected.keys() - AGENT_VARIABLES
        assert names <= alone.keys()
        same = names - DIFFERENT
        assert {name: alone[name] for name in same} == {name: expected[name] for name in same}
        assert {name: configured[name] for name in same} == {name: expected[name] for name in same}


def test_ranks_find_each_other_without_an_agent(script, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    job = gang(Launcher.PLAIN, (sys.executable, script(ADDS_UP_ITS_RANKS), str(results)))
    run_all(processes_of(job, free_port()))
    assert [(results / str(rank)).read_text() for rank in range(2)] == ["3", "3"]
