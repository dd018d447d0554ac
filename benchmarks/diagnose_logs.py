"""Time and memory of `windlass doctor` for 1 GB of logs of 512 ranks, beside Python's `re` on a sample of them.

The logs are those of a healthy run up to its last lines: NCCL's and torchrun's opening lines, then progress, in which
rank 300 runs out of GPU memory and all others report a timeout.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from windlass.diagnose.failures.failure_rules import load_rules

RANKS, TOTAL_BYTES, SAMPLE_BYTES = 512, 1_000_000_000, 200_000
CULPRIT = 300
TARGET_S, TARGET_MB = 10.0, 500
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
WINDLASS = str(Path(sys.executable).with_name("windlass"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = write_logs(Path(folder))
        print(f"{RANKS} files, {written / 1e6:.0f} MB")
        seconds, cpu_s, memory_mb = timed(folder)
        report("`windlass doctor` of 1 GB of logs of 512 ranks", seconds, "s", TARGET_S)
        report("its peak memory", memory_mb, "MB", TARGET_MB)
        print(f"CPU time {cpu_s:.1f} s, {written / 1e6 / cpu_s:.0f} MB a second")
        ratio = loop_ratio(Path(folder), cpu_s / written)
        print(f"Python's re, a loop over all signatures: {ratio:.0f} times the CPU time")


def report(claim: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": claim, "measured": round(measured, 2), "unit": unit, "target": target}))


def write_logs(folder: Path) -> int:
    """Writes the log of each rank; returns their bytes."""
    for rank in range(RANKS):
        (folder / f"rank{rank}.log").write_text(log_text(rank, TOTAL_BYTES // RANKS))
    return sum(path.stat().st_size for path in folder.iterdir())


def log_text(rank: int, size: int) -> str:
    node, device = f"gpu{rank // 8:03}", rank % 8
    head, where = f"{node}:501:733 [{device}] NCCL INFO", f"nRanks 512 nNodes 64 localRanks 8 localRank {device}"
    channels = (f"{head} Channel {number:02}/0 : {rank}[{device}] -> {rank + 1}[0] via P2P/IPC" for number in range(24))
    lines = [f"{head} comm 0x55a4d8f0 rank {rank} {where}", *channels]
    length, step = sum(map(len, lines)), 0
    while length < size:
        lines.append(progress_line(rank, step))
        length += len(lines[-1]) + 1
        step += 1
    return "\n".join([*lines, last_line(rank)]) + "\n"


def progress_line(rank: int, step: int) -> str:
    clock = f"2026-03-02 {11 + step // 36000 % 12:02}:{step // 600 % 60:02}:{step // 10 % 60:02},{step % 10}00"
    if step % 50 == 0:
        return f"{clock} DEBUG data: rank {rank} fetched shard {step} from s3://bucket/train/{step:06}.tar in 0.3 s"
    losses = f"loss: {2 + step % 97 / 100:.3f} lr 3e-4 grad_norm 0.9{step % 89}"
    return f"{clock} INFO trainer: step {step} {losses} tokens/s {12000 + step % 901}"


def last_line(rank: int) -> str:
    if rank == CULPRIT:
        return f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds."
    )


def timed(folder: str) -> tuple[float, float, float]:
    """Seconds, seconds of CPU time, and peak memory of all processes in MB. Fails unless the verdict is right."""
    start, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as answer:
        process = subprocess.Popen([WINDLASS, "doctor", "-o", "json", folder], stdout=answer)
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak = max(peak, memory_of_tree(process.pid))
            time.sleep(0.1)
        seconds = time.perf_counter() - start
        _, _, usage = os.wait4(process.pid, 0)
        answer.seek(0)
        verdict = json.load(answer)["verdict"]
    assert (verdict["cause"], verdict["rank"]) == ("cuda-out-of-memory", CULPRIT)
    return seconds, usage.ru_utime + usage.ru_stime, peak / 1e6


def memory_of_tree(pid: int) -> int:
    """Bytes of memory of a process and its children; pages that they share count once for each."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        return own + sum(memory_of_tree(int(child)) for child in children)
    return 0


def loop_ratio(folder: Path, per_byte: float) -> float:
    """CPU time of a loop over lines and signatures with Python's `re`, as a multiple of `per_byte`, on a sample."""
    patterns = [re.compile(text) for rule in load_rules().values() for text in rule.signatures]
    lines = (folder / "rank0.log").read_text()[:SAMPLE_BYTES].split("\n")
    start = time.process_time()
    assert any(pattern.search(line) for line in lines for pattern in patterns)
    [pattern.search(line) for line in lines for pattern in patterns]
    return (time.process_time() - start) / SAMPLE_BYTES / per_byte


if __name__ == "__main__":
    main()
