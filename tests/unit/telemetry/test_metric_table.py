"""The reference page of metrics is that of the table."""

from pathlib import Path

from windlass.telemetry.metric_table import metrics_page

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/metrics.md"


def test_the_reference_page_lists_the_metrics_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == metrics_page(), "run docs/generate.py"
