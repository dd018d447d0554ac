"""The files of the blind set and of the settled threads: format, known causes and halves."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
CASES = sorted((HERE / "blind").glob("*/*.yaml"))
CAUSES = yaml.safe_load((HERE / "blind" / "causes.yaml").read_text(encoding="utf-8"))
SLUGS = {slug for family in CAUSES.values() for slug in family}
SCOPES = {"rank", "node", "fabric", "job", "cluster"}
COMMON = {"id", "source", "launcher", "category", "cause", "also_right", "scope", "settled", "half"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def threads() -> list[dict[str, Any]]:
    return [thread for path in sorted((HERE / "threads").glob("*.yaml")) for thread in read(path)]


def half_of(identity: str) -> str:
    return "kept" if int(hashlib.sha256(identity.encode()).hexdigest()[0], 16) % 2 == 0 else "tuning"


def check_common_fields(case: dict[str, Any]) -> None:
    assert {case["cause"], *case["also_right"]} <= SLUGS
    assert case["scope"] in SCOPES
    assert case["half"] == half_of(case["id"])
    assert all(isinstance(case[field], str) and case[field] for field in COMMON - {"also_right"})


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_has_all_fields_a_known_cause_and_its_half(path: Path) -> None:
    case = read(path)
    assert set(case) == COMMON | {"title", "date", "logs"}
    check_common_fields(case)
    assert (case["category"], case["id"]) == (path.parent.name, path.stem)
    assert case["logs"]
    assert all(set(log) == {"name", "text"} and log["text"].strip() for log in case["logs"])


@pytest.mark.parametrize("thread", threads(), ids=lambda thread: thread["id"])
def test_a_settled_thread_has_all_fields_a_known_cause_and_its_half(thread: dict[str, Any]) -> None:
    assert set(thread) == COMMON | {"symptom"}
    check_common_fields(thread)
    assert thread["symptom"]


def test_no_two_entries_have_the_same_source_or_id() -> None:
    entries = [read(path) for path in CASES] + threads()
    for field in ("source", "id"):
        counts = Counter(entry[field] for entry in entries)
        assert [value for value, count in counts.items() if count > 1] == []


def test_a_slug_belongs_to_one_family_and_has_a_meaning() -> None:
    counts = Counter(slug for family in CAUSES.values() for slug in family)
    assert max(counts.values()) == 1
    assert all(meaning for family in CAUSES.values() for meaning in family.values())
