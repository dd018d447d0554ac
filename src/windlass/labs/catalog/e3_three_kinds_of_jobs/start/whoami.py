"""One rank of a job of any kind: finds its place in the environment, meets the others at rank 0, adds up their ranks."""

import json
import os
import socket
import time
from pathlib import Path

NAMES = ("RANK", "WORLD_SIZE", "MASTER_", "TF_CONFIG", "PET_", "JOB_COMPLETION_INDEX")


def identity() -> tuple[int, int, str, int]:
    """Returns the rank, the number of ranks, and the host and port at which rank 0 listens."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return rank, world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def main() -> None:
    for name, value in sorted(os.environ.items()):
        if name.startswith(NAMES):
            print(f"{name}={value}", flush=True)
    rank, world, host, port = identity()
    print(f"I am rank {rank} of {world}; rank 0 is at {host}:{port}", flush=True)
    total = lead(world, port) if rank == 0 else follow(rank, host, port)
    print(f"the sum of all ranks is {total}", flush=True)
    Path("/dev/termination-log").write_text(json.dumps({"rank": rank, "world": world, "sum": total, "host": host}))


def lead(world: int, port: int) -> int:
    """Rank 0: receives a number of each other rank, and returns the sum to all."""
    with socket.create_server(("", port)) as server:
        members = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
        total = sum(int(member.readline()) for member in members)
        for member in members:
            member.write(f"{total}\n")
            member.flush()
    return total


def follow(rank: int, host: str, port: int) -> int:
    """Another rank: sends its number, and gets the sum. Waits for rank 0 without a limit."""
    while True:
        try:
            channel = socket.create_connection((host, port)).makefile("rw")
            break
        except OSError:
            time.sleep(0.5)
    channel.write(f"{rank}\n")
    channel.flush()
    return int(channel.readline())


if __name__ == "__main__":
    main()
