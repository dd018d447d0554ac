"""The sample DAG with Airflow itself: `airflow dags test` runs its tasks, and the gang on a daemon."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import windlass

ROOT = Path(__file__).parents[2]
DAG = ROOT / "examples/pipelines/digits_dag.py"


@pytest.mark.timeout(400)
def test_the_tasks_of_the_dag_train_and_evaluate(run, state, tmp_path):
    dags = tmp_path / "home/airflow/dags"
    dags.mkdir(parents=True)
    shutil.copy(DAG, dags)
    settings = {
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "EXAMPLES": str(DAG.parent),
        "DIGITS_WORK": str(tmp_path / "work"),
        "EPOCHS": "2",
    }
    run("airflow", "db", "migrate", **settings)
    ran = run("airflow", "dags", "test", "digits", **settings)
    printed = ran.stdout + ran.stderr
    found = re.search(r"job (digits-\d+): loss \d\.\d+, accuracy (0\.\d+)", printed)
    assert found, printed[-3000:]
    assert float(found[2]) > 0.85
    with windlass.Client("local", state=state) as client:
        assert [(job.id, job.phase, job.ranks) for job in client.history()] == [(found[1], "Succeeded", 2)]
