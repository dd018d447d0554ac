"""The demo on one machine: a gang of four ranks on two nodes queues, starts whole, loses a rank, recovers and succeeds.

`make demo` runs it. It uses a temporary folder and its own daemon, which has ended when the demo ends. The folder stays
after a success, for the dashboard. Every step is checked: the exit code is 0 only if all of them had the described
result and the model was trained.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from narration import DemoFailedError, expect, explain, follow, output_of, show

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MIN_ACCURACY = 0.97
"""Required share of correctly classified test images."""
DASHBOARD_PORT = 7420
TIMEOUT_S = 240
"""Time after which the demo fails; it takes about thirty seconds."""
KILL_AFTER = "epoch 4/"
"""Text in the output of rank 0 after which another rank is killed."""


def main() -> int:
    signal.signal(signal.SIGALRM, fail_on_timeout)
    signal.alarm(TIMEOUT_S)
    begin = time.monotonic()
    folder = tempfile.mkdtemp(prefix="windlass-demo-")
    os.chdir(ROOT)
    os.environ["WINDLASS_STATE"] = f"{folder}/state"
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    accuracy = None
    try:
        accuracy = run_demo(Path(folder))
    except DemoFailedError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        subprocess.run(["windlass", "down", "--yes"], capture_output=True, check=False)
        if accuracy is None:
            shutil.rmtree(folder, ignore_errors=True)
    explain(
        f"The model classifies {accuracy:.1%} of the test images correctly, {time.monotonic() - begin:.0f} seconds "
        "after the first command, with one rank lost on the way. To run it yourself:"
    )
    print("  . .venv/bin/activate")
    print("  windlass run -N 2 -G 1 -- python examples/digits/train.py")
    print("  More examples: README.md")
    explain(
        "The finished job in the dashboard: its loss, ranks, output and life. The first command starts it and opens "
        "the browser, or prints the link that signs in. The last two commands remove everything."
    )
    print(f"  windlass ui --state {folder}/state --port {DASHBOARD_PORT}")
    print(f"  http://127.0.0.1:{DASHBOARD_PORT}/jobs/digits")
    print(f"  windlass down --state {folder}/state")
    print(f"  rm -r {folder}")
    return 0


def run_demo(folder: Path) -> float:
    """Run all steps and return the accuracy of the trained model."""
    explain("1. A daemon. It divides this machine into two nodes with two slots each; with GPUs a slot is a GPU.")
    show("windlass up -d --local-nodes 2 --local-gpus 2")
    show("windlass nodes")

    explain("2. A queue. One job holds one of the four slots, and a second job needs all four at once.")
    show("windlass submit --name notebook -G 1 -- sleep 600")
    train = f"python examples/digits/train.py --epochs 8 --checkpoint-dir {folder}/checkpoints"
    show(f"windlass submit --name digits -N 2 -G 2 -- {train}")
    show("windlass queue")
    explain("Three slots are free, but no rank of the job has started: a gang starts whole or not at all.")
    why = show("windlass why digits")
    expect("WaitingForQuota" in why, "the gang did not wait for the fourth slot")

    explain("3. A gang start. The slot becomes free, and all four ranks start at once.")
    show("windlass cancel notebook")
    accuracy = train_and_kill_rank()

    explain("5. The record of the job.")
    show("windlass status digits")
    check_record(json.loads(output_of("windlass status digits -o json")))

    explain("6. The end of the daemon. No process remains.")
    show("windlass down")
    expect(not ranks("digits"), "processes were left behind")
    return accuracy


def train_and_kill_rank() -> float:
    """Follow the log of the job, kill a rank in the middle, and return the final accuracy."""
    killed, resumed, accuracy = False, False, 0.0
    for line in follow("windlass logs -f digits"):
        if KILL_AFTER in line and not killed:
            kill_rank()
            killed = True
        if match := re.search(r"resumed after epoch (\d+)", line):
            resumed = killed and int(match[1]) > 0
            explain("All four ranks run again and continue from their checkpoint, not from the beginning.")
        if match := re.search(r"test accuracy (\d\.\d+)", line):
            accuracy = float(match[1])
    expect(killed, "the training ended before a rank could be killed")
    expect(resumed, "the ranks did not resume from a checkpoint")
    expect(accuracy >= MIN_ACCURACY, f"an accuracy of {accuracy}, below {MIN_ACCURACY}")
    return accuracy


def kill_rank() -> None:
    """Send SIGKILL to rank 2 of the running gang."""
    alive = ranks("digits")
    expect(sorted(alive) == [0, 1, 2, 3], f"ranks {sorted(alive)} were running, not four")
    expect(len({node for _, node in alive.values()}) == 2, "the gang was not on two nodes")
    pid, node = alive[2]
    explain(
        f"4. A lost rank. The demo kills rank 2 on {node} with SIGKILL. The agent of each node stops its other ranks "
        "and forks new ones from a process that has already imported torch. A kill from outside counts as an "
        "infrastructure failure, not as a failure of the program. (The tracebacks of the other ranks, which report the "
        "closed connection, are omitted here.)"
    )
    print(f"$ kill -9 {pid}", flush=True)
    os.kill(pid, signal.SIGKILL)


def ranks(job: str) -> dict[int, tuple[int, str]]:
    """Return the running ranks of a job: rank → (pid, node)."""
    listed = json.loads(output_of(f"windlass status {job} -o json"))["progress"]["ranks"]
    return {rank["rank"]: (rank["pid"], rank["node"]) for rank in listed if rank["pid"] and is_alive(rank["pid"])}


def is_alive(pid: int) -> bool:
    """Whether the process exists and was started by this demo's daemon."""
    try:
        return f"WINDLASS_STATE_ID={state_id()}" in (Path(f"/proc/{pid}") / "environ").read_text().split("\0")
    except OSError:
        return False


def state_id() -> str:
    return (Path(os.environ["WINDLASS_STATE"]) / "id").read_text().strip()


def check_record(record: dict) -> None:
    status = record["status"]
    expect(status["phase"] == "Succeeded", f"the job ended as {status['phase']}")
    expect(status["generation"] == 1, f"the job had {status['generation']} generations, not 1")
    expect(status["recoveries"] == 1, f"it recovered {status['recoveries']} times, not once")
    expect(status["infrastructure_failures"] == 1, "the kill was not counted as an infrastructure failure")


def fail_on_timeout(_number: int, _frame: FrameType | None) -> None:
    raise DemoFailedError(f"not finished after {TIMEOUT_S} seconds")


if __name__ == "__main__":
    sys.exit(main())
