"""The demo: two nodes, a gang of four ranks that queues, starts whole, loses a rank, recovers and finishes.

`make demo` runs it. Everything happens in a temporary folder, with a daemon of its own, and is gone afterwards.
It checks what it shows: the exit code is 0 only if all of it really happened and the model was trained.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from narration import NotAsShownError, expect, follow, output_of, show, tell

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
GOAL = 0.97
"""Share of the test images to be told right."""
PATIENCE = 240
"""Seconds after which the demo gives up; it takes about thirty."""
LOST_AFTER = "epoch 4/"
"""A rank is killed when rank 0 has printed this."""


def main() -> int:
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        os.chdir(ROOT)
        os.environ["WINDLASS_STATE"] = f"{folder}/state"
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        try:
            accuracy = the_story(Path(folder))
        except NotAsShownError as trouble:
            print(f"\nThe demo failed: {trouble}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            subprocess.run(["windlass", "down", "--yes"], capture_output=True, check=False)
    tell(
        f"The model tells {accuracy:.1%} of the test images right, {time.monotonic() - begin:.0f} seconds after the "
        "first command, a lost rank included. Try it yourself:"
    )
    print("  . .venv/bin/activate")
    print("  windlass run -N 2 -G 1 -- python examples/digits/train.py")
    print("  README.md goes on from here.")
    return 0


def the_story(folder: Path) -> float:
    """Returns the accuracy that was reached."""
    tell("1. A daemon. This machine plays two nodes with two slots each; a slot is a GPU where there are any.")
    show("windlass up -d --local-nodes 2 --local-gpus 2")
    show("windlass nodes")

    tell("2. A queue. Somebody holds one of the four slots, and a job comes that needs all four at once.")
    show("windlass submit --name notebook -G 1 -- sleep 600")
    train = f"python examples/digits/train.py --checkpoint-dir {folder}/checkpoints"
    show(f"windlass submit --name digits -N 2 -G 2 -- {train}")
    show("windlass queue")
    tell("Three slots are free, yet nothing of the job has started: a gang starts whole or not at all.")
    why = show("windlass why digits")
    expect("WaitingForQuota" in why, "the gang did not wait for the fourth slot")

    tell("3. A gang start. The slot comes free, and all four ranks start at once, each told who it is.")
    show("windlass cancel notebook")
    accuracy = train_and_lose_a_rank()

    tell("5. What happened, as it was recorded.")
    show("windlass status digits")
    check_the_record(json.loads(output_of("windlass status digits -o json")))

    tell("6. The end of the daemon. Nothing stays behind.")
    show("windlass down")
    expect(not ranks("digits"), "processes were left behind")
    return accuracy


def train_and_lose_a_rank() -> float:
    """Follow the log of the whole job; kill a rank on the way. Returns the accuracy it ends with."""
    killed, resumed, accuracy = False, False, 0.0
    for line in follow("windlass logs -f digits"):
        if LOST_AFTER in line and not killed:
            lose_a_rank()
            killed = True
        if match := re.search(r"resumed after epoch (\d+)", line):
            resumed = killed and int(match[1]) > 0
            tell("All four run again and go on from their checkpoint, not from the beginning.")
        if match := re.search(r"test accuracy (\d\.\d+)", line):
            accuracy = float(match[1])
    expect(killed, "the training was over before a rank could be killed")
    expect(resumed, "the ranks did not resume from a checkpoint")
    expect(accuracy >= GOAL, f"an accuracy of {accuracy}, not {GOAL}")
    return accuracy


def lose_a_rank() -> None:
    """Send SIGKILL to rank 2 of the running gang."""
    alive = ranks("digits")
    expect(sorted(alive) == [0, 1, 2, 3], f"ranks {sorted(alive)} were running, not four")
    expect(len({node for _, node in alive.values()}) == 2, "the gang was not on two nodes")
    pid, node = alive[2]
    tell(
        f"4. A lost rank. We kill rank 2 on {node} without a warning. Each node's agent stops its other ranks and "
        "forks new ones from a process that has imported torch already. The kill came from outside, so it is not held "
        "against the program. (The others' tracebacks, which say that a peer has gone, are left out here.)"
    )
    print(f"$ kill -9 {pid}", flush=True)
    os.kill(pid, signal.SIGKILL)


def ranks(job: str) -> dict[int, tuple[int, str]]:
    """The living ranks of a job: rank → (pid, node)."""
    seen = json.loads(output_of(f"windlass status {job} -o json"))["progress"]["ranks"]
    return {rank["rank"]: (rank["pid"], rank["node"]) for rank in seen if rank["pid"] and is_alive(rank["pid"])}


def is_alive(pid: int) -> bool:
    """Whether there is such a process that was started for this demo."""
    try:
        return f"WINDLASS_STATE_ID={state_id()}" in (Path(f"/proc/{pid}") / "environ").read_text().split("\0")
    except OSError:
        return False


def state_id() -> str:
    return (Path(os.environ["WINDLASS_STATE"]) / "id").read_text().strip()


def check_the_record(record: dict) -> None:
    status = record["status"]
    expect(status["phase"] == "Succeeded", f"the job ended as {status['phase']}")
    expect(status["generation"] == 1, f"it took {status['generation']} generations, not 1")
    expect(status["recoveries"] == 1, f"it recovered {status['recoveries']} times, not once")
    expect(status["infrastructure_failures"] == 1, "the kill was not counted as a failure of infrastructure")


def give_up(_number: int, _frame: FrameType | None) -> None:
    raise NotAsShownError(f"it was not done after {PATIENCE} seconds")


if __name__ == "__main__":
    sys.exit(main())
