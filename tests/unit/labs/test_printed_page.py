"""All labs as one page."""

import re

import pytest

from windlass.labs.concept_cards import card_titles, read_card
from windlass.labs.lab_catalog import all_labs
from windlass.labs.lab_description import LabDescription, LabFacts
from windlass.labs.printed_page import days_of, demote_headings, lab_section, labs_page, path_section

TEXT = """# H1: Gangs

Two jobs deadlock.

## 1. Look

```sh
# a comment, no heading
windlass queue
```
"""


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "text.md").write_text(TEXT)

    def make(lab_id="h1", minutes=20, days=(1, 2), needs=("cluster",), gpu="Pods get devices."):
        return LabDescription(
            LabFacts(lab_id, f"Lab {lab_id}", "H", "A goal.", minutes, needs, ("gangs",), gpu, days), tmp_path
        )

    return make


def test_headings_move_and_comments_in_blocks_stay():
    assert [line for line in demote_headings(TEXT, 2).splitlines() if "#" in line] == [
        "### H1: Gangs",
        "#### 1. Look",
        "# a comment, no heading",
    ]


def test_a_longer_fence_holds_a_shorter_one():
    text = "````text\n```\n# no heading\n```\n````\n# heading"
    assert demote_headings(text, 1).splitlines()[-1] == "## heading"
    assert "\n# no heading\n" in demote_headings(text, 1)


def test_a_lab_begins_with_its_facts(lab):
    lines = lab_section(lab()).splitlines()
    assert lines[0] == "## H1: Gangs"
    assert lines[2] == "Lab `h1`: 20 minutes. Needs besides Python: cluster. Cards: gangs."
    assert lines[4] == "**Where GPUs are real**: Pods get devices."


def test_a_path_has_its_labs_alone(lab):
    labs = [lab("a1", 30), lab("a2", 10, days=(2,)), lab("b1", 20, needs=())]
    table = path_section(labs, 1)
    assert re.findall(r"^\| 1 \| (\w+) ", table, re.MULTILINE) == ["a1", "b1"]
    assert "Labs of 50 minutes" in table
    assert "| b1 | Lab b1 | 20 | Python |" in table


def test_two_days_are_about_equally_long(lab):
    assert days_of([lab(minutes=minutes) for minutes in (30, 30, 30, 30)], 2) == [1, 1, 2, 2]
    assert days_of([lab(minutes=minutes) for minutes in (60, 20, 20, 20)], 2) == [1, 2, 2, 2]
    assert days_of([lab()], 1) == [1]
    assert days_of([], 2) == []


def test_the_page_has_each_lab_and_each_card_once():
    cards = [read_card(name) for name in card_titles()]
    headings = re.findall(r"^#+ .*", labs_page(all_labs(), cards), re.MULTILINE)
    assert [heading for heading in headings if heading.startswith("# ")] == headings[:1]
    for lab in all_labs():
        assert headings.count("## " + lab.text.splitlines()[0].removeprefix("# ")) == 1
    for title in card_titles().values():
        assert headings.count(f"### {title}") == 1


def test_labs_name_cards_that_exist():
    assert {card for lab in all_labs() for card in lab.facts.cards} <= card_titles().keys()
