"""Writes to the conditions of 4,000 pending pods while the counts in their reasons change every ten seconds.

500 gangs of 8 pods are pending for an hour of virtual time. In each round the counts of every gang move at random by up
to a tenth; in the second measurement the reason of a tenth of the gangs changes as well. The API server is a fake that
shows each write at once. CPU time is that of one round over all gangs, in `process_time`.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/unit/kubernetes/status"))

import msgspec
from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions

GANGS, SIZE, ROUND_S, ROUNDS = 500, 8, 10, 360
CAUSES = ("full", "reserved for a gang ahead", "cordoned")


class FakeCluster:
    """Counts the patches of pods, and stores the condition of each."""

    def __init__(self) -> None:
        self.pods = {name: pending_pod(name) for gang in range(GANGS) for name in names_of(gang)}
        self.writes = 0

    async def patch(self, _resource: object, _namespace: str, name: str, body: dict, **_options: object) -> None:
        [condition] = body["status"]["conditions"]
        self.writes += 1
        written = objects.Condition(**{key: condition[key] for key in ("type", "status", "reason", "message")})
        before = self.pods[name]
        self.pods[name] = msgspec.structs.replace(
            before, status=msgspec.structs.replace(before.status, conditions=[written])
        )


def main() -> None:
    for name, changing in (("counts", 0.0), ("counts, and reasons of a tenth of the gangs", 0.1)):
        writes, cpu_ms = run_in_virtual_time(measure(changing))
        print(f"{name}: {writes:.2f} writes/s, {cpu_ms:.1f} ms of CPU per round")
        claim = f"writes for {GANGS * SIZE} pending pods, changing {name}"
        print(json.dumps({"claim": claim, "measured": round(writes, 2), "unit": "writes/s", "target": 10.0}))


async def measure(changing: float) -> tuple[float, float]:
    """Writes a second after the first reason, and CPU time of a round in ms."""
    chance = random.Random(7)  # noqa: S311 - a seed, so that every run measures the same
    cluster, cpu = FakeCluster(), []
    pending = PendingConditions(cluster, print)  # type: ignore[arg-type]  # a fake connection
    causes = [0] * GANGS
    for turn in range(ROUNDS + 6):
        if turn == 6:
            cluster.writes = 0
        began = time.process_time()
        for gang in range(GANGS):
            causes[gang] += chance.random() < changing
            sentence = f"{chance.randint(900, 1_000)} nodes are {CAUSES[causes[gang] % len(CAUSES)]}"
            pending.say(f"g{gang}", sentence, lambda gang=gang: [cluster.pods[name] for name in names_of(gang)])
        cpu.append(time.process_time() - began)
        await asyncio.sleep(ROUND_S)
    await pending.close()
    return cluster.writes / (ROUNDS * ROUND_S), 1_000 * sorted(cpu)[len(cpu) // 2]


def names_of(gang: int) -> list[str]:
    return [f"g{gang}-worker-{index}" for index in range(SIZE)]


def pending_pod(name: str) -> objects.Pod:
    metadata = {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"}
    return objects.pod(msgspec.json.encode({"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}}))


if __name__ == "__main__":
    main()
