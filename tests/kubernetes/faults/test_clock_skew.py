"""Replicas whose clocks differ by an hour: no job ends too early or waits for the other clock."""

from __future__ import annotations

import contextvars
import time

import pytest

from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import End
from windlass.server.operator import replica

from . import jobs
from .conftest import Play
from .fault_scenario import FaultScenario

HOUR = 3_600_000
skew: contextvars.ContextVar[int] = contextvars.ContextVar("skew", default=0)


@pytest.mark.parametrize(("first", "second"), [(HOUR, -HOUR), (-HOUR, HOUR)], ids=["behind", "ahead"])
def test_a_leader_with_another_clock_continues_the_jobs(
    plane: ControlPlane, play: Play, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    monkeypatch.setattr(replica, "epoch_ms", lambda: time.time_ns() // 1_000_000 + skew.get())

    async def scenario(on: FaultScenario) -> None:
        skew.set(first)
        await on.replicas.start()
        old = await on.replicas.leader()
        await on.make(jobs.training_job("long", 2, time="3h"), jobs.training_job("again", 2))
        await on.until_phase("Running", "long", "again")
        skew.set(second)
        await on.replicas.start()
        on.replicas.kill(old)
        await on.replicas.leader()
        # the restart after a second failure in a row is delayed by a second on either clock
        for _ in range(3):
            await on.kubelets.end(jobs.NAMESPACE, "again-worker-0", End(code=137))
            before = on.kubelets.started
            await on.until(_more_than(on, before), "the gang starts again")
        await on.until_phase("Running", "long", "again")
        assert (await on.job("long"))["status"]["windlass"]["generation"] == 1

    play(plane, scenario)


def _more_than(on: FaultScenario, before: int):
    async def condition() -> bool:
        return on.kubelets.started >= before + 2

    return condition
