"""Scripts written for torchrun run unchanged under the agent, with torch and gloo."""

import json
import os
import signal
from functools import partial
from importlib.util import find_spec

import pytest
from forked_ranks import start_torchrun

import torch_forks

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed: pip install windlass-train[train]"
)

ADDS_UP = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {total.item()}")
dist.destroy_process_group()
"""
STEPS = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, generation = dist.get_rank(), os.environ["WINDLASS_GENERATION"]
for step in range(1000):
    dist.all_reduce(torch.ones(1))
    if step == 1:
        print(f"rank {rank} generation {generation} pid {os.getpid()} world {dist.get_world_size()}")
    time.sleep(0.02)
    if os.path.exists("enough") and step > 2:
        break
print(f"rank {rank} is done")
os._exit(0)
"""
LOADS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def double(batch):
    return sum(2 * item[0].item() for item in batch)

if __name__ == "__main__":
    data = TensorDataset(torch.arange(8.0))
    for context in ("fork", "spawn"):
        loader = DataLoader(data, 4, num_workers=1, collate_fn=double, multiprocessing_context=context)
        print(context, sum(loader))
"""
COMPUTES_IN_THREADS = """
import threading, torch

tensors = [torch.ones(100_000) for _ in range(8)]
barrier = threading.Barrier(len(tensors))

def add(tensor):
    barrier.wait()
    try:
        tensor.add_(1)
    except RuntimeError as error:
        print("failed:", error)

threads = [threading.Thread(target=add, args=(tensor,)) for tensor in tensors]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads", torch.get_num_threads())
"""
SAYS_ITS_ENVIRONMENT = """
import json, os, sys
with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as file:
    json.dump(dict(os.environ), file)
"""
OWN = {"TORCHELASTIC_SIGNALS_TO_HANDLE"}
"""Between torchrun's agent and itself."""
DIFFERENT = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "MASTER_ADDR", "MASTER_PORT"}
"""Each run's own."""


@pytest.fixture
def warm(start):
    """Starts an agent whose fork server is forked from a process that has imported torch."""
    return partial(start, WINDLASS_PRELOAD="", PYTHON_EXEC=torch_forks.python())


def test_ranks_find_each_other_through_the_agents_store(start):
    agent = start("--nproc-per-node=4", "SCRIPT", script=ADDS_UP, WINDLASS_PRELOAD="")  # no optimizer
    assert agent.ends() == 0
    assert agent.output.count("of 4 has 10.0") == 4


def test_a_killed_rank_0_takes_no_store_with_it_and_all_meet_again(warm, tmp_path):
    agent = warm("--nproc-per-node=2", "--max-restarts=1", "SCRIPT", script=STEPS)
    os.kill(agent.pid_of(0), signal.SIGKILL)
    agent.pid_of(0, generation=2)
    (tmp_path / "enough").touch()
    assert agent.ends() == 0


def test_a_lost_node_0_leaves_ranks_that_train_on(warm, port, tmp_path):
    words = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "SCRIPT"]
    agents = [warm(*words, script=STEPS) for _ in range(2)]
    first, other = sorted(agents, key=lambda agent: "rank 1 generation" in agent.until("world 2"))
    first.process.kill()
    other.until("world 1")
    (tmp_path / "enough").touch()
    assert other.ends() == 0


def test_worker_processes_of_loaders_forked_and_spawned(warm):
    agent = warm("SCRIPT", script=LOADS)
    assert agent.ends() == 0, agent.output
    assert "fork 56.0" in agent.output
    assert "spawn 56.0" in agent.output


def test_a_script_sees_what_it_sees_under_torchrun(warm, tmp_path, mark):
    for name in ("torchrun", "agent"):
        (tmp_path / name).mkdir()
    agent = warm("--nproc-per-node=2", "SCRIPT", str(tmp_path / "agent"), script=SAYS_ITS_ENVIRONMENT)
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    start_torchrun(base, "--nproc-per-node=2", "script.py", tmp_path / "torchrun", cwd=tmp_path).finish()
    assert agent.ends() == 0
    for rank in range(2):
        theirs, ours = (json.loads((tmp_path / name / str(rank)).read_text()) for name in ("torchrun", "agent"))
        names = theirs.keys() - base.keys() - OWN
        assert names <= ours.keys()
        assert {name: ours[name] for name in names - DIFFERENT} == {name: theirs[name] for name in names - DIFFERENT}


def test_threads_of_a_rank_compute_at_once_where_a_preloaded_module_has_set_their_number(start, tmp_path):
    (tmp_path / "sets_threads.py").write_text("import torch\ntorch.set_num_threads(3)\n")
    own = {"WINDLASS_PRELOAD": "sets_threads", "PYTHONPATH": str(tmp_path), "PYTHON_EXEC": torch_forks.python()}
    agent = start("--nproc-per-node=6", "SCRIPT", script=COMPUTES_IN_THREADS, **own)
    assert agent.ends() == 0
    assert agent.output.count("threads 3") == 6
    assert "failed:" not in agent.output
