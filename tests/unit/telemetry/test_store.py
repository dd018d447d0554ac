"""The store of telemetry: what is read back after compaction, deletion, damage and a crash."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.telemetry.frame_codec import CodecError, decode_frames, encode_frames
from windlass.telemetry.frames import CLUSTER, MetricFrame, Tier, job_scope, scalar
from windlass.telemetry.rollup import statistic
from windlass.telemetry.store import StoreError, TelemetryStore

HOUR = 3_600_000
START = 500_000 * HOUR
JOB = job_scope("digits-1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TelemetryStore]:
    opened = TelemetryStore.create(tmp_path / "telemetry.db")
    yield opened
    opened.close()


def losses(scope: str, start: int, count: int, every_ms: int = 5_000) -> list[MetricFrame]:
    return [
        MetricFrame(scope, start + index * every_ms, {"windlass_job_loss": scalar(count - index)})
        for index in range(count)
    ]


def times_and_values(frames: list[MetricFrame]) -> list[tuple[int, list[float]]]:
    return [(frame.time, frame.values["windlass_job_loss"].tolist()) for frame in frames]


def test_a_new_file_has_its_tables_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[Path] = []

    def replace(new: Path, path: Path) -> Path:
        TelemetryStore.read(new).close()
        named.append(new)
        return new.rename(path)

    monkeypatch.setattr(Path, "replace", replace)
    store = TelemetryStore.create(tmp_path / "telemetry.db")
    store.add(losses(JOB, START, 1))
    store.close()
    assert len(named) == 1


def test_raw_frames_are_the_same_before_and_after_compaction(store: TelemetryStore) -> None:
    added = losses(JOB, START, 200)
    store.add(added)
    before = times_and_values(store.frames(JOB, Tier.RAW, 0, START * 2))
    store.compact(START + 1_000_000)
    assert times_and_values(store.frames(JOB, Tier.RAW, 0, START * 2)) == before == times_and_values(added)


def test_a_query_ends_before_its_end_and_begins_with_its_begin(store: TelemetryStore) -> None:
    store.add(losses(JOB, START, 100))
    store.compact(START + 600_000)
    found = store.frames(JOB, Tier.RAW, START + 10_000, START + 20_000)
    assert [frame.time - START for frame in found] == [10_000, 15_000]


def test_a_minute_has_mean_extremes_and_last_value_of_its_frames(store: TelemetryStore) -> None:
    store.add(losses(JOB, START, 12))
    store.compact(START + HOUR // 2)
    (minute,) = store.frames(JOB, Tier.MINUTE, START, START + HOUR)
    vector = minute.values["windlass_job_loss"]
    found = {name: statistic(vector, name).tolist() for name in ("mean", "min", "max", "last")}
    assert found == {"mean": [6.5], "min": [1.0], "max": [12.0], "last": [1.0]}


def test_an_hour_summarizes_its_minutes(store: TelemetryStore) -> None:
    store.add(losses(JOB, START, 720))
    store.compact(START + 2 * HOUR)
    (hour,) = store.frames(JOB, Tier.HOUR, START, START + HOUR)
    vector = hour.values["windlass_job_loss"]
    assert statistic(vector, "mean") == pytest.approx([360.5])
    assert (statistic(vector, "max")[0], statistic(vector, "last")[0]) == (720, 1)


def test_ranks_that_come_and_go_keep_their_columns(store: TelemetryStore) -> None:
    two, three = np.array([1, 2], np.float32), np.array([3, np.nan, 5], np.float32)
    store.add([MetricFrame(JOB, START, {"step": two}), MetricFrame(JOB, START + 1_000, {"step": three})])
    store.compact(START + HOUR // 2)
    first, second = store.frames(JOB, Tier.RAW, 0, START * 2)
    assert first.values["step"].tolist() == [1, 2]
    assert np.array_equal(second.values["step"], three, equal_nan=True)
    (minute,) = store.frames(JOB, Tier.MINUTE, 0, START * 2)
    assert np.isnan(statistic(minute.values["step"], "mean")[1])


def test_a_late_frame_joins_its_block(store: TelemetryStore) -> None:
    store.add(losses(JOB, START, 3))
    store.compact(START + HOUR // 2)
    store.add([MetricFrame(JOB, START + 2_500, {"windlass_job_loss": scalar(9)})])
    store.compact(START + HOUR // 2)
    assert [frame.time - START for frame in store.frames(JOB, Tier.RAW, 0, START * 2)] == [0, 2_500, 5_000, 10_000]


def test_each_tier_is_deleted_at_its_age(store: TelemetryStore) -> None:
    store.add(losses(JOB, START, 720))
    store.compact(START + HOUR + 20_000)
    store.compact(START + 4 * HOUR)
    assert store.frames(JOB, Tier.RAW, 0, START * 2) == []
    assert len(store.frames(JOB, Tier.MINUTE, 0, START * 2)) == 60
    store.compact(START + 40 * HOUR)
    assert store.frames(JOB, Tier.MINUTE, 0, START * 2) == []
    assert len(store.frames(JOB, Tier.HOUR, 0, START * 2)) == 1
    store.compact(START + 95 * 24 * HOUR)
    assert store.scopes() == []


def test_a_store_beyond_its_size_loses_its_oldest_raw_frames_first(tmp_path: Path) -> None:
    store = TelemetryStore.create(tmp_path / "telemetry.db", max_bytes=90_000)
    noise = np.random.default_rng(0)
    frames = [MetricFrame(JOB, START + i * 5_000, {"step": noise.random(64, dtype=np.float32)}) for i in range(360)]
    store.add(frames)
    store.compact(START + HOUR // 2 + 20_000)
    kept = store.frames(JOB, Tier.RAW, 0, START * 2)
    assert store.size() <= 90_000
    assert kept == [] or kept[0].time > START
    assert len(store.frames(JOB, Tier.MINUTE, 0, START * 2)) == 30
    store.close()


def test_frames_survive_a_process_that_never_closes(tmp_path: Path) -> None:
    TelemetryStore.create(tmp_path / "telemetry.db").add(losses(CLUSTER, START, 2))
    again = TelemetryStore.create(tmp_path / "telemetry.db")
    assert len(again.frames(CLUSTER, Tier.RAW, 0, START * 2)) == 2
    again.close()


def test_a_damaged_file_is_set_aside_and_said(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.db"
    path.write_bytes(b"no database at all" * 1000)
    store = TelemetryStore.create(path)
    assert "telemetry.damaged" in store.replaced
    assert (tmp_path / "telemetry.damaged").exists()
    store.add(losses(JOB, START, 1))
    store.close()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"telemetry in .*: unable to open database file"):
        TelemetryStore.create(tmp_path / "missing" / "telemetry.db")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_frames(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_frames(JOB, data)


@given(st.lists(st.lists(st.floats(width=32), min_size=1, max_size=5), min_size=1, max_size=20))
def test_frames_of_any_values_are_read_as_they_were_written(rows: list[list[float]]) -> None:
    frames = [MetricFrame(JOB, START + i, {"x": np.array(row, np.float32)}) for i, row in enumerate(rows)]
    found = decode_frames(JOB, encode_frames(frames))
    assert [frame.time for frame in found] == [frame.time for frame in frames]
    assert all(np.array_equal(a.values["x"], b.values["x"], equal_nan=True) for a, b in zip(found, frames, strict=True))


def test_a_stamp_changes_with_the_frames_of_its_scope_alone(store: TelemetryStore) -> None:
    assert store.stamp(JOB) == ""
    store.add(losses(JOB, START, 200))
    first = store.stamp(JOB)
    store.add(losses(CLUSTER, START, 300))
    assert store.stamp(JOB) == first
    store.add(losses(JOB, START + HOUR, 1))
    second = store.stamp(JOB)
    store.compact(START + 2 * HOUR)
    assert len({"", first, second, store.stamp(JOB)}) == 4
