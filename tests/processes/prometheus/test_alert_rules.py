"""Alert rules, in Prometheus' own unit tests and against the metric table."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from windlass.deploy.monitoring.alert_rules import DCGM_METRICS, RULES
from windlass.telemetry.metric_table import METRICS, MetricType

HERE = Path(__file__).parent
RULES_FILE = HERE.parents[2] / "deploy/prometheus/rules.yaml"
NO_PROMTOOL = "no promtool: apt-get install prometheus"


def promtool(*words: str, folder: Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(NO_PROMTOOL)
    ran = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_rules_are_valid(tmp_path: Path) -> None:
    shutil.copy(RULES_FILE, tmp_path)
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "rules.yaml", folder=tmp_path)


def test_alerts_fire_when_they_must_and_only_then(tmp_path: Path) -> None:
    shutil.copy(RULES_FILE, tmp_path)
    shutil.copy(HERE / "alerts.yaml", tmp_path)
    promtool("test", "rules", "alerts.yaml", folder=tmp_path)


def test_every_alert_has_a_unit_test() -> None:
    text = (HERE / "alerts.yaml").read_text(encoding="utf-8")
    fired = set(re.findall(r"alertname: (\w+)\n +exp_alerts:", text))
    assert fired == {rule.name for rule in RULES}


def test_rules_read_only_metrics_that_exist() -> None:
    known = METRICS.keys() | set(DCGM_METRICS)
    known |= {f"{metric.name}_bucket" for metric in METRICS.values() if metric.kind is MetricType.HISTOGRAM}
    for rule in RULES:
        read = set(re.findall(r"\b(?:windlass|DCGM)_\w+", rule.expression))
        assert read
        assert read <= known, rule.name
