"""A DAG of Airflow: load on CPUs, train as a gang, evaluate.

Copy it into the folder of DAGs. `airflow dags test digits` runs all tasks in one process, with a daemon of Windlass
on this machine. EXAMPLES is the folder of these examples.
"""

import os
from pathlib import Path

from airflow.sdk import dag, task

from windlass.plugins.airflow_operator import WindlassOperator

EXAMPLES = Path(os.environ.get("EXAMPLES", Path(__file__).parent))
WORK = Path(os.environ.get("DIGITS_WORK", "digits-work")).resolve()
"""Folder that tasks and ranks share; on a cluster, the address of an object store."""


@task
def load() -> str:
    import numpy as np
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = data.images.astype("float32")[:, None] / 16, data.target.astype("int64")
    order = np.random.default_rng(0).permutation(len(labels))
    parts = {"test": order[:360], "train": order[360:]}
    arrays = {f"{name}_images": images[part] for name, part in parts.items()}
    WORK.mkdir(parents=True, exist_ok=True)
    np.savez(WORK / "digits.npz", **arrays, **{f"{name}_labels": labels[part] for name, part in parts.items()})
    return str(WORK / "digits.npz")


@task
def evaluate(digits: str, report: dict) -> float:
    import numpy as np

    predicted = np.load(WORK / "output" / "predictions.npy")
    accuracy = float((predicted == np.load(digits)["test_labels"]).mean())
    print(f"job {report['job']}: loss {report['metrics']['loss']:.4f}, accuracy {accuracy:.4f}")
    return accuracy


@dag(dag_id="digits", schedule=None)
def digits_dag() -> None:
    digits = load()
    train = WindlassOperator(
        task_id="train",
        job={
            "name": "digits",
            "nodes": 2,
            "gpus": 1,
            "command": ["python", str(EXAMPLES / "train_gang.py")],
            "env": {"EPOCHS": os.environ.get("EPOCHS", "4")},
        },
        input_uri=digits,
        output_uri=str(WORK / "output"),
        metrics={"loss": "loss "},
    )
    evaluate(digits, train.output)


digits_dag()
