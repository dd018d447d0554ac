"""Each check of `windlass doctor` has a page, and each page a check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass.diagnose
from windlass.diagnose.check_pages import checks_page, explain_check, find_check, load_checks
from windlass.diagnose.cluster.checks import pod_checks
from windlass.diagnose.host.burn.measurement import Measurement, judge_measurements
from windlass.jobs.errors import InputError

FOLDER = Path(windlass.diagnose.__file__).parent
PAGE = Path(__file__).parents[3] / "docs/reference/doctor-checks.md"
AREAS = {name.partition(".")[0] for name in load_checks()}
STEP = re.compile(rf"({'|'.join(AREAS)})\.[a-z_]+")
FAMILIES = {"access.KIND", "operator.NAME"}
"""Pages of checks whose names end with a name of the cluster."""
LOADS = ("matmul", "memory", "all-reduce", "disk:/tmp")


def names_in_code() -> Iterator[str]:
    """Names of steps that stand in the code of the checks, up to a colon."""
    for path in (path for verb in ("host", "cluster", "slow") for path in (FOLDER / verb).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.partition(":")[0]
                if STEP.fullmatch(name) and " " not in node.value:
                    yield name


def names_of_steps() -> set[str]:
    loads = judge_measurements([Measurement(load, "cpu") for load in LOADS])
    made = {*(f"pods.{reason}" for reason in pod_checks._CLASSES), *(step.name.partition(":")[0] for step in loads)}
    return made | set(names_in_code())


def test_each_check_has_a_page_and_each_page_a_check():
    assert names_of_steps() == load_checks().keys() - FAMILIES


@pytest.mark.parametrize("name", sorted(load_checks()))
def test_a_page_says_what_the_check_judges_and_which_command_runs_it(name: str):
    check, text = load_checks()[name], explain_check(f"doctor.{name}")
    assert text.startswith(check.name)
    assert check.judges.endswith(".")
    assert check.why.endswith(".")
    assert f"windlass doctor {check.verb}" in text


def test_the_list_has_all_checks():
    assert all(f"  {name} " in explain_check("doctor") for name in load_checks())


def test_names_of_a_cluster_have_the_page_of_their_family():
    pages = [find_check(name) for name in ("access.nodes", "operator.kueue", "pool.ready:a", "access.kinds")]
    names = ["access.KIND", "operator.NAME", "pool.ready", "access.kinds"]
    assert [page.name for page in pages if page] == names
    assert find_check("pods.other") is None


def test_an_unknown_check_is_one_clear_error():
    with pytest.raises(InputError, match=r"has no check 'gpu\.ec'; did you mean 'gpu\.ecc'\?"):
        explain_check("doctor.gpu.ec")
    with pytest.raises(InputError, match="windlass explain doctor lists all"):
        explain_check("doctor.nothing_alike")


def test_the_reference_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == checks_page(), "run docs/generate.py"
