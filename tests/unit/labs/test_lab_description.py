"""`lab.yaml`, hints and the catalog: wrong ones are refused with the place."""

import pytest
from small_lab import FILES, small_lab

from windlass.labs.errors import LabError
from windlass.labs.lab_catalog import all_labs, find_lab, lab_ids
from windlass.labs.lab_hints import read_hints
from windlass.labs.lab_solution import solution_text

YAML = FILES["lab.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (YAML.replace("id: a7", "id: b7"), "the folder of the lab 'b7' is named b7_<name>"),
        (YAML.replace("module: A", "module: B"), "module is the letter of the id"),
        (YAML + "needs: [gpu]\n", "needs has 'gpu'; known: torch, cluster"),
        (YAML + "days: [3]\n", "days has 3; known: 1, 2"),
        (YAML.replace("minutes: 5", "minutes: soon"), "Expected `int`, got `str` - at `$.minutes`"),
        (YAML.replace("goal", "gaol"), "missing required field `goal`"),
        ("[", "describes no lab"),
    ],
)
def test_a_wrong_description_names_the_field(tmp_path, text, message):
    with pytest.raises(LabError) as refused:
        small_lab(tmp_path, lab=text)
    assert message in str(refused.value)


def test_the_catalog_finds_a_lab_in_either_case_and_suggests_the_nearest():
    assert find_lab("C1").facts.id == "c1"
    assert lab_ids() == [lab.facts.id for lab in all_labs()]
    with pytest.raises(LabError, match="there is no lab 'c11'"):
        find_lab("c11")


def test_hints_are_numbered_from_one(tmp_path, lab):
    assert read_hints(lab) == ["Think.", "Think again.", "It is 42."]
    with pytest.raises(LabError, match="no hints numbered from 1"):
        read_hints(small_lab(tmp_path / "other", hints="## 2\n\nSecond.\n"))


def test_a_solution_shows_its_commands_and_differences(lab):
    text = solution_text(lab)
    assert 'cp "$WINDLASS_LAB_FILES/solution/answer.txt" .' in text
    assert "-41\n+42\n" in text
