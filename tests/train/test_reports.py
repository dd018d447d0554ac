"""Reports of a run to TensorBoard, MLflow and W&B, which continue in the same tracker run after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_ranks import ranks
from windlass_loops import run_with_trackers


def test_tensorboard_has_one_run_of_a_restarted_job(tmp_path: Path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for steps in (4, 8):
        ranks(2, run_with_trackers, f"tensorboard:{tmp_path / 'runs'}", str(tmp_path / "kept"), steps, {})
    found = events.EventAccumulator(str(tmp_path / "runs"))
    found.Reload()
    assert [each.step for each in found.Scalars("loss")] == [2, 4, 6, 8]
    assert {"step_ms", "samples_per_second", "forward_ms"} <= set(found.Tags()["scalars"])


def test_mlflow_has_one_run_of_a_restarted_job(tmp_path: Path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the store without database and server
    place = f"file:{tmp_path}/mlruns"
    for steps in (4, 8):
        ranks(
            1, run_with_trackers, f"mlflow:{place}", str(tmp_path / "kept"), steps, {"MLFLOW_ALLOW_FILE_STORE": "true"}
        )
    client = mlflow.MlflowClient(place)
    (run,) = client.search_runs([client.get_experiment_by_name("windlass").experiment_id])
    assert (run.info.run_name, run.info.status) == ("digits-7", "FINISHED")
    assert [each.step for each in client.get_metric_history(run.info.run_id, "loss")] == [2, 4, 6, 8]


def test_wandb_keeps_a_run_in_a_folder_where_there_is_no_server(tmp_path: Path):
    pytest.importorskip("wandb")
    env = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)}
    ranks(1, run_with_trackers, "wandb:mine", str(tmp_path / "kept"), 4, env)
    assert list(tmp_path.glob("wandb/offline-run-*-digits-7/*.wandb"))
