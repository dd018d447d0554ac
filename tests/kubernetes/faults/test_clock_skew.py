"""Replicas whose clocks disagree by an hour: nothing ends too early, and nothing waits for the other's clock."""

from __future__ import annotations

import contextvars
import time

import pytest
from controlplane.cluster import ControlPlane
from controlplane.fake_pod import End

from windlass.server.operator import replica

from . import jobs
from .conftest import Play
from .story import Story

HOUR = 3_600_000
skew: contextvars.ContextVar[int] = contextvars.ContextVar("skew", default=0)


@pytest.mark.parametrize(("first", "second"), [(HOUR, -HOUR), (-HOUR, HOUR)], ids=["behind", "ahead"])
def test_the_next_leaders_clock_is_another(
    plane: ControlPlane, play: Play, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    monkeypatch.setattr(replica, "epoch_ms", lambda: time.time_ns() // 1_000_000 + skew.get())

    async def tale(on: Story) -> None:
        skew.set(first)
        await on.replicas.start()
        old = await on.replicas.leader()
        await on.make(jobs.training_job("long", 2, time="3h"), jobs.training_job("again", 2))
        await on.until_phase("Running", "long", "again")
        skew.set(second)
        await on.replicas.start()
        on.replicas.kill(old)
        await on.replicas.leader()
        # the second failure in a row waits a second for its next start, by whatever clock
        for _ in range(3):
            await on.kubelets.end(jobs.NAMESPACE, "again-worker-0", End(code=137))
            before = on.kubelets.started
            await on.until(_more_than(on, before), "the gang starts again")
        await on.until_phase("Running", "long", "again")
        assert (await on.job("long"))["status"]["windlass"]["generation"] == 1

    play(plane, tale)


def _more_than(on: Story, before: int):
    async def so() -> bool:
        return on.kubelets.started >= before + 2

    return so
