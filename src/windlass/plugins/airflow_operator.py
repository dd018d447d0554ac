"""The operator `WindlassOperator` of Airflow: a job as a task, with the metrics of the job as result of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from windlass.plugins.gang_step import run_gang


class WindlassOperator(BaseOperator):
    """Submits a job and follows it. The task fails with the job, and a task that is stopped cancels the job.

    `job`: fields of a job file, or the path of one. `metrics`: name → the text before its number in the output, or a
    regular expression with one group. `input_uri` and `output_uri`: WINDLASS_INPUT and WINDLASS_OUTPUT of the ranks.
    The result has `job` and `metrics`.
    """

    template_fields = ("job", "target", "namespace", "input_uri", "output_uri")
    template_fields_renderers: ClassVar[dict[str, str]] = {"job": "json"}
    ui_color = "#dbe7f5"

    def __init__(
        self,
        *,
        job: str | Mapping[str, Any],
        target: str = "",
        namespace: str = "",
        input_uri: str = "",
        output_uri: str = "",
        metrics: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.job, self.target, self.namespace = job, target, namespace
        self.input_uri, self.output_uri, self.metrics = input_uri, output_uri, metrics

    def execute(self, context: Any) -> dict[str, Any]:
        """Runs the job; called by Airflow."""
        del context
        report = run_gang(
            self.job,
            target=self.target,
            namespace=self.namespace,
            input_uri=self.input_uri,
            output_uri=self.output_uri,
            metrics=self.metrics,
        )
        return {"job": report.job, "metrics": dict(report.metrics)}
