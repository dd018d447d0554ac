"""A pipeline with one step, a gang of two ranks."""

from kfp import dsl, local

from windlass.plugins.kfp_component import windlass_gang


@dsl.pipeline(name="one-gang")
def one_gang() -> dsl.Metrics:
    train = windlass_gang(
        job={"name": "step", "nodes": 2, "cpus": 0, "command": "python3 train.py"},
        metric_texts={"loss": "loss "},
    )
    return train.outputs["metrics"]


if __name__ == "__main__":
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root="runs")
    print(dict(sorted(one_gang().output.metadata.items())))
