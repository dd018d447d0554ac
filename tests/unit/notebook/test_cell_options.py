"""Options of a `%%windlass` cell."""

from __future__ import annotations

import pytest

from windlass.client.errors import InvalidRequestError
from windlass.notebook.cell_options import read_cell_options


def test_options_become_the_fields_of_a_job_file():
    found = read_cell_options(
        "-N 2 --procs 2 --cpus 1500m --time 10m --env A=b --exclude n1,n2 --result loss --on prod"
    )
    assert found is not None
    assert (found.target, found.namespace, found.result) == ("prod", "", "loss")
    assert dict(found.fields) == {
        "name": "cell",
        "nodes": 2,
        "procs": 2,
        "cpus": "1500m",
        "time": "10m",
        "env": {"A": "b"},
        "avoid": ["n1", "n2"],
    }


def test_a_range_of_sizes_is_an_elastic_job():
    found = read_cell_options("-N 2:4")
    assert found is not None
    assert dict(found.fields) == {"name": "cell", "elastic": {"min": 2, "max": 4}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--node 2", "No such option: --node"),
        ("-N two", "expects a number such as 2"),
        ("--result 2x", "'2x' is no name of a variable"),
        ("--name 'a", "No closing quotation"),
        ("-N 2 train.py", "unexpected extra argument"),
    ],
)
def test_a_wrong_line_is_one_error(line: str, message: str):
    with pytest.raises(InvalidRequestError, match=message):
        read_cell_options(line)


def test_help_is_printed(capsys: pytest.CaptureFixture[str]):
    assert read_cell_options("--help") is None
    assert "--result NAME" in capsys.readouterr().out
