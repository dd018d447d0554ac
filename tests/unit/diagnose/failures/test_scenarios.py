"""Every scenario of the rule tables gets the right first verdict."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.diagnose.failures.engine import diagnose
from windlass.diagnose.failures.evidence import Evidence, LogSource

HERE = Path(__file__).parent
TABLES = [HERE.parent / "scenarios.yaml", *sorted((HERE.parent / "scenarios").glob("*.yaml"))]
SCENARIOS = [each for table in TABLES for each in yaml.safe_load(table.read_text(encoding="utf-8"))]
HEALTHY = (HERE.parent / "healthy_lines.txt").read_bytes()


def source(name: str, text: bytes, **known: Any) -> LogSource:
    return LogSource(name, partial(io.BytesIO, text), **known)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_the_first_verdict_of_a_scenario_names_its_cause(scenario: dict[str, Any]) -> None:
    logs = [source(name, "\n".join(lines).encode()) for name, lines in scenario["logs"].items()]
    verdict = diagnose(Evidence(logs, has_failed=scenario.get("has_failed", False))).verdict
    right = [scenario["cause"], *scenario.get("also_right", [])]
    assert (verdict.cause if verdict else "healthy") in right
    if verdict:
        told = {"rule": verdict.rule, "rank": verdict.rank}
        assert told == told | {name: scenario[name] for name in told if name in scenario}


def test_lines_of_healthy_runs_give_no_verdict() -> None:
    assert diagnose(Evidence([source("healthy.log", HEALTHY)])).verdict is None
