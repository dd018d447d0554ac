"""Inputs of a cell from its notebook, and the value that a rank makes of them."""

from __future__ import annotations

import json
import math

import pytest

from windlass.client.errors import InvalidRequestError
from windlass.notebook.cell_inputs import CellInputs, read_inputs
from windlass.notebook.rank_cell import run_cell


def run(source: str, **namespace: object) -> object:
    inputs = read_inputs(source, namespace)
    return run_cell(source, inputs.variables, inputs.imports)


def test_a_cell_takes_the_variables_that_it_reads():
    namespace = {"base": 1, "scale": [2.5], "other": 3, "print": print}
    assert read_inputs("print(base * scale[0])", namespace) == CellInputs({"base": 1, "scale": [2.5]})


def test_functions_and_classes_of_a_cell_read_variables_too():
    source = "def f(own):\n    inner = own\n    return [base + inner for inner in (own,)]\nf(2)"
    assert read_inputs(source, {"base": 1, "own": 7, "inner": 8}).variables == {"base": 1}
    assert run(source, base=1) == [3]


def test_modules_and_their_functions_are_imported_by_ranks():
    inputs = read_inputs("m.dumps(sqrt(value))", {"m": json, "sqrt": math.sqrt, "value": 9})
    assert inputs == CellInputs({"value": 9}, {"m": "json", "sqrt": "math:sqrt"})
    assert run("m.dumps(sqrt(value))", m=json, sqrt=math.sqrt, value=9) == "3.0"


def test_a_value_that_is_not_plain_is_refused_unless_the_cell_assigns_it():
    with pytest.raises(InvalidRequestError, match="the cell uses model, and model is a object, which no rank can get"):
        read_inputs("model.train()", {"model": object()})
    assert read_inputs("model = 1\nmodel + 1", {"model": object()}) == CellInputs()
    assert run("count = count + 1\ncount", count=1) == 2


def test_a_cell_with_magics_is_refused_with_its_line():
    with pytest.raises(InvalidRequestError, match="line 2 of the cell: invalid syntax\na cell for ranks"):
        read_inputs("x = 1\n!ls", {})


def test_the_value_of_the_last_line_returns():
    assert run("x = 2\nx * 3") == 6
    assert run("x = 2") is None
    assert run("") is None
    assert run("class A:\n    y = 1\n[A().y, None, {'a': 1.5}]") == [1, None, {"a": 1.5}]


def test_a_value_that_is_not_plain_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "0")
    assert run("{1}") is None
    monkeypatch.setenv("RANK", "1")
    assert run("{2}") is None
    assert capsys.readouterr().out == "{1}\n"
