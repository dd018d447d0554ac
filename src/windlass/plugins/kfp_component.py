"""The component `windlass_gang` of Kubeflow Pipelines: a job of Windlass as a step, with its metrics and its output.

kfp sends the body of the function to the step, so it imports there what it needs: the image of the step has
`windlass-train[kubernetes,kfp]`. Set another one by `set_container_image` of the task.
"""

from typing import NamedTuple

from kfp import dsl

from windlass import __version__


@dsl.component(base_image=f"windlass:{__version__}", install_kfp_package=False)
def windlass_gang(
    job: dict,  # type: ignore[type-arg] # kfp takes no other form
    metrics: dsl.Output[dsl.Metrics],
    output: dsl.Output[dsl.Artifact],
    input_uri: str = "",
    metric_texts: dict = {},  # type: ignore[type-arg] # noqa: B006 - kfp reads it, and the function does not change it
    target: str = "",
    namespace: str = "",
) -> NamedTuple("Outputs", job_id=str, attempts=int):  # type: ignore[valid-type]
    """Submits a job and follows it.

    `job`: fields of a job file. `input_uri`: WINDLASS_INPUT of the ranks, such as the uri of an artifact; that of
    `output` is in WINDLASS_OUTPUT. `metric_texts`: name of a metric → the text before its number in the output of the
    ranks, or a regular expression with one group. `target`: "kubernetes", a context, or "local"; "": the default.
    """
    from collections import namedtuple  # noqa: PLC0415

    from windlass.plugins.gang_step import run_gang  # noqa: PLC0415

    report = run_gang(
        job,
        target=target,
        namespace=namespace,
        input_uri=input_uri,
        output_uri=output.uri,
        metrics=metric_texts,
    )
    for name, value in report.metrics.items():
        metrics.log_metric(name, value)
    output.metadata["windlass_job"] = report.job
    outputs = namedtuple("outputs", ["job_id", "attempts"])  # noqa: PYI024 - kfp takes no other form
    return outputs(report.job, int(report.metrics["attempts"]))
