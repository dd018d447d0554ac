"""One rank of a job: meets all other ranks at rank 0, adds up one number of each ten times, and ends.

It waits for the others without a limit, as a collective does. Standard library only, so that it starts at once.
"""

import os
import socket
import time
from pathlib import Path

PORT = 29500
STEPS = 10


def main() -> None:
    rank = int(os.environ.get("RANK") or os.environ["JOB_COMPLETION_INDEX"])
    world = int(os.environ["WORLD_SIZE"])
    say(f"rank {rank} of {world} has its GPU on {os.environ.get('NODE', 'this node')}")
    total = lead(world) if rank == 0 else follow(rank, os.environ["MASTER_ADDR"])
    Path("/dev/termination-log").write_text(f"rank {rank} of {world}: sum {total}")
    say(f"rank {rank}: the sum over all ranks is {total}")


def lead(world: int) -> int:
    """Rank 0: waits for the others, then receives and returns sums."""
    with socket.create_server(("", PORT)) as server:
        members = []
        while len(members) < world - 1:
            say(f"rank 0 waits: {len(members) + 1} of {world} ranks are here")
            members.append(server.accept()[0].makefile("rw"))
        say(f"all {world} ranks are here")
        total = 0
        for step in range(STEPS):
            total = sum(int(member.readline()) for member in members)
            for member in members:
                member.write(f"{total}\n")
                member.flush()
            say(f"step {step}: sum {total}")
            time.sleep(0.3)
    return total


def follow(rank: int, master: str) -> int:
    """Another rank: sends its number in each step, and gets the sum."""
    channel = connect(master).makefile("rw")
    total = 0
    for _ in range(STEPS):
        channel.write(f"{rank}\n")
        channel.flush()
        total = int(channel.readline())
    return total


def connect(master: str) -> socket.socket:
    say(f"waiting for rank 0 at {master}")
    while True:
        try:
            return socket.create_connection((master, PORT))
        except OSError:
            time.sleep(0.5)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
