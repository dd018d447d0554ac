"""Command line and script of elastic runs whose agents are all on this machine."""

WAITS = """
import os, sys, time
rank, world, generation = (os.environ[name] for name in ("RANK", "WORLD_SIZE", "WINDLASS_GENERATION"))
print(f"rank {rank} generation {generation} pid {os.getpid()} world {world}", flush=True)
while not os.path.exists("enough"):
    time.sleep(0.05)
"""


def elastic(port, nodes="1:3", **conf):
    settings = {"last_call_timeout": 1, "keep_alive_interval": 0.2, "keep_alive_max_attempt": 10, **conf}
    pairs = ",".join(f"{name}={value}" for name, value in settings.items())
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=run", f"--rdzv-conf={pairs}"]
    return [f"--nnodes={nodes}", "--nproc-per-node=2", "--max-restarts=2", *meeting, "SCRIPT"]


def enough(tmp_path, *agents):
    (tmp_path / "enough").touch()
    assert [agent.ends() for agent in agents] == [0] * len(agents)
