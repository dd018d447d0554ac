"""The newest frames of a store, for Prometheus."""

from pathlib import Path

import pytest

from windlass.server.errors import ApiError
from windlass.server.telemetry_records.queries import newest_frames
from windlass.telemetry.frames import CLUSTER, MetricFrame, job_scope, scalar
from windlass.telemetry.store import TelemetryStore

NOW = 1_700_000_000_000


def test_each_scope_has_its_newest_frame_of_the_last_minute(tmp_path: Path) -> None:
    store = TelemetryStore.create(tmp_path / "telemetry.db")
    for ago in (4_000, 2_000):
        store.add([MetricFrame(CLUSTER, NOW - ago, {"windlass_nodes": scalar(ago)})])
    store.add([MetricFrame(job_scope("ended"), NOW - 90_000, {"windlass_job_step": scalar(7)})])
    store.close()
    (frame,) = newest_frames(tmp_path / "telemetry.db", NOW)
    assert (frame.scope, frame.values["windlass_nodes"].tolist()) == (CLUSTER, [2_000])


def test_a_store_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="nothing has been recorded yet"):
        newest_frames(tmp_path / "telemetry.db", NOW)
