"""Sends metrics of a run to TensorBoard, MLflow or W&B, through their own libraries, where installed.

Each receives values by name, and the step. A restarted job continues the same run of the tracker.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from windlass import wire
from windlass.train.errors import TrainError

PACKAGES: Mapping[str, tuple[str, str]] = {
    "tensorboard": ("tensorboard", "tensorboard"),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "wandb": ("wandb", "wandb"),
}
"""Name → the module that it needs, and the package that provides it."""


class Tracker(Protocol):
    """A run of a tracker. Calls that raise an error are repeated, and training continues."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log values by name after step `step`."""

    def close(self) -> None:
        """Flush what was logged, and end."""


@dataclass(frozen=True, slots=True)
class TrackerSpec:
    """A requested tracker. `where`: TensorBoard's folder, MLflow's tracking URI, W&B's project; "" is its default."""

    name: str
    where: str = ""


def parse_trackers(
    report_to: str | Sequence[str] | None, environment: Mapping[str, str] = os.environ
) -> tuple[TrackerSpec, ...]:
    """Parse `init(report_to=…)`, or without it the job's variable: "tensorboard:/logs,mlflow"; "none" for none.

    Raises TrainError for a tracker that is unknown or not installed.
    """
    requested = environment.get(wire.REPORT_TO, "") if report_to is None else report_to
    parts = requested.split(",") if isinstance(requested, str) else requested
    found = [TrackerSpec(*(half.strip() for half in part.partition(":")[::2])) for part in parts if part.strip()]
    if [each.name for each in found] == ["none"]:
        return ()
    for each in found:
        _check_installed(each.name)
    return tuple(found)


def run_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the job, or of the script."""
    return environment.get(wire.JOB_NAME) or Path(sys.argv[0]).stem or "run"


def open_tracker(spec: TrackerSpec, name: str) -> Tracker:
    """Open a new or existing run of that name."""
    kinds: Mapping[str, Callable[[str, str], Tracker]] = {
        "tensorboard": _TensorBoard,
        "mlflow": _MLflow,
        "wandb": _Wandb,
    }
    return kinds[spec.name](spec.where, name)


def _check_installed(name: str) -> None:
    if name not in PACKAGES:
        near = get_close_matches(name, PACKAGES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"valid are {', '.join(PACKAGES)}, or none"
        raise TrainError(f"report_to: there is no {name!r}; {hint}")
    module, package = PACKAGES[name]
    if find_spec(module) is None:
        raise TrainError(f"report_to={name!r} needs the package {package}: pip install {package}")


class _TensorBoard:
    """Event files in a folder; a restart adds one, and TensorBoard shows them as one run."""

    def __init__(self, where: str, name: str) -> None:
        self._writer = import_module("torch.utils.tensorboard").SummaryWriter(where or f"runs/{name}")

    def log(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _MLflow:
    """A run of the experiment that MLFLOW_EXPERIMENT_NAME names, found by its name after a restart."""

    def __init__(self, where: str, name: str) -> None:
        mlflow = import_module("mlflow")
        self._metric = mlflow.entities.Metric
        self._client = mlflow.MlflowClient(where or None)
        experiment = _experiment(self._client, os.environ.get("MLFLOW_EXPERIMENT_NAME", "windlass"))
        self._run = _mlflow_run(self._client, experiment, name)

    def log(self, values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        self._client.log_batch(self._run, [self._metric(key, value, now, step) for key, value in values.items()])

    def close(self) -> None:
        self._client.set_terminated(self._run)


class _Wandb:
    """A run of a project, with the job's name as its id; WANDB_MODE=offline keeps it in a folder."""

    def __init__(self, where: str, name: str) -> None:
        wandb = import_module("wandb")
        project = where or os.environ.get("WANDB_PROJECT", "windlass")
        identity = re.sub(r"[^\w-]", "-", name)
        self._run = wandb.init(project=project, name=name, id=identity, resume="allow")
        # After a rollback some steps are reported twice, and W&B's own step counter never decreases.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "step": step})

    def close(self) -> None:
        self._run.finish()


def _experiment(client: Any, name: str) -> str:
    known = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if known is None else known.experiment_id)


def _mlflow_run(client: Any, experiment: str, name: str) -> str:
    quoted = name.replace("'", "_")
    known = client.search_runs([experiment], f"attributes.run_name = '{quoted}'", max_results=1)
    if not known:
        return str(client.create_run(experiment, run_name=quoted).info.run_id)
    identity = str(known[0].info.run_id)
    client.update_run(identity, status="RUNNING")
    return identity
