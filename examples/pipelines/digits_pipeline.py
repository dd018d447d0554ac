"""A pipeline of Kubeflow Pipelines: load on CPUs, train as a gang, evaluate, register.

python examples/pipelines/digits_pipeline.py compile pipeline.yaml   # for a cluster with Kubeflow Pipelines
windlass up -d && python examples/pipelines/digits_pipeline.py run --epochs 4   # all steps on this machine
"""

import argparse
from pathlib import Path

from kfp import compiler, dsl, local

from windlass.plugins.kfp_component import windlass_gang

IMAGE = "windlass-pipelines:1"
"""Image of the steps: it has `windlass-train[kubernetes,kfp]`, scikit-learn and this folder in /examples/pipelines."""


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def load_digits(digits: dsl.Output[dsl.Dataset]) -> str:
    from pathlib import Path

    import numpy as np
    from sklearn.datasets import load_digits as read

    data = read()
    images, labels = data.images.astype("float32")[:, None] / 16, data.target.astype("int64")
    order = np.random.default_rng(0).permutation(len(labels))
    parts = {"test": order[:360], "train": order[360:]}
    arrays = {f"{name}_images": images[part] for name, part in parts.items()}
    with Path(digits.path).open("wb") as file:
        np.savez(file, **arrays, **{f"{name}_labels": labels[part] for name, part in parts.items()})
    return digits.uri


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(digits: dsl.Input[dsl.Dataset], model: dsl.Input[dsl.Artifact], metrics: dsl.Output[dsl.Metrics]) -> float:
    import numpy as np

    predicted = np.load(f"{model.path}/predictions.npy")
    accuracy = float((predicted == np.load(digits.path)["test_labels"]).mean())
    metrics.log_metric("accuracy", accuracy)
    return accuracy


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def register(model: dsl.Input[dsl.Artifact], accuracy: float, least: float, registry: str) -> str:
    import json
    import shutil
    from pathlib import Path

    if accuracy < least:
        raise SystemExit(f"the accuracy {accuracy:.4f} is below {least}: nothing is registered")
    folder = Path(registry) / model.metadata["windlass_job"].replace("/", "-")
    shutil.copytree(model.path, folder)
    (folder / "card.json").write_text(json.dumps({"accuracy": accuracy, **model.metadata}))
    return str(folder)


@dsl.pipeline(name="digits")
def digits_pipeline(job: dict, registry: str, least: float = 0.9, target: str = "") -> str:
    loaded = load_digits()
    trained = windlass_gang(job=job, input_uri=loaded.outputs["Output"], metric_texts={"loss": "loss "}, target=target)
    checked = evaluate(digits=loaded.outputs["digits"], model=trained.outputs["output"])
    stored = register(
        model=trained.outputs["output"], accuracy=checked.outputs["Output"], least=least, registry=registry
    )
    return stored.output


def digits_job(epochs: int) -> dict[str, object]:
    """The gang: two replicas with one GPU each. Its command finds the script on this machine."""
    script = str(Path(__file__).with_name("train_gang.py"))
    return {"name": "digits", "nodes": 2, "gpus": 1, "command": ["python", script], "env": {"EPOCHS": str(epochs)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("compile").add_argument("file")
    run = commands.add_parser("run")
    run.add_argument("--epochs", type=int, default=4)
    run.add_argument("--registry", default="registry")
    args = parser.parse_args()
    if args.command == "compile":
        compiler.Compiler().compile(digits_pipeline, args.file)
        return
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root="pipeline-runs")
    task = digits_pipeline(job=digits_job(args.epochs), registry=str(Path(args.registry).resolve()))
    print(f"registered in {task.output}")


if __name__ == "__main__":
    main()
