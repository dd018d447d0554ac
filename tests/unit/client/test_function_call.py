from __future__ import annotations

import math

import pytest

from windlass.client.function_call import (
    FunctionCall,
    decode_call,
    encode_call,
    read_result,
    result_lines,
    without_result,
)
from windlass.client.plain_values import PlainValueError

KEY = "0a" * 16


@pytest.mark.parametrize("value", [None, True, 3, 0.1, "ü\n\0", [1, [2, {}]], {"loss": [0.5, 1e-300]}, "x" * 20_000])
def test_a_plain_value_comes_back_from_the_output_as_it_was(value: object):
    lines = result_lines(value, KEY)
    assert read_result(["epoch 1", *lines, "bye"], KEY) == value
    assert all(line.isascii() and line.isprintable() and len(line) < 4096 for line in lines)


def test_a_result_may_be_no_number():
    lines = result_lines({"loss": math.nan, "best": math.inf}, KEY)
    found = read_result(lines, KEY)
    assert isinstance(found, dict)
    assert math.isnan(found["loss"])
    assert found["best"] == math.inf


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({1, 2}, "it is a set"),
        ({"model": {"w": [1, b""]}}, "it['model']['w'][1] is a bytes"),
        ({1: 2}, "it has a key of type int"),
        ((1, 2), "it is a tuple"),
        ("x" * (1 << 20), "more than 1048576"),
    ],
)
def test_a_value_that_json_would_change_is_refused_with_its_place(value: object, fault: str):
    with pytest.raises(PlainValueError, match=fault.replace("[", r"\[").replace("]", r"\]")):
        result_lines(value, KEY)


def test_a_value_that_contains_itself_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(PlainValueError, match="deeper than 100 levels"):
        result_lines(endless, KEY)


def test_the_last_whole_result_counts():
    first, second = result_lines("a" * 9000, KEY), result_lines([2], KEY)
    assert read_result([*first, *second], KEY) == [2]
    assert read_result([*second, *first[:2]], KEY) == [2]
    assert read_result([*first, *second, *first], KEY) == "a" * 9000


@pytest.mark.parametrize("damage", [lambda lines: lines[1:], lambda lines: lines[:-1]])
def test_of_an_incomplete_result_the_number_of_lines_is_told(damage):
    with pytest.raises(PlainValueError, match="no whole result: only 2 of its 3 lines still exist"):
        read_result(damage(result_lines("a" * 9000, KEY)), KEY)


FORGED = [
    'windlass-result 1/1 0123456789abcdef {"loss":0}',
    f'windlass-result 1/1 {"0" * 32} {"0" * 32} {{"loss":0}}',
    *result_lines({"loss": 0}, "key of another call"),
]


@pytest.mark.parametrize("line", FORGED)
def test_a_line_without_the_key_of_the_call_is_output(line: str):
    with pytest.raises(PlainValueError, match=r"no whole result$"):
        read_result([line], KEY)
    assert read_result([*result_lines(3, KEY), f"INFO sample text: {line}"], KEY) == 3
    assert without_result(line, KEY) == line
    assert without_result(line, "") == line


@pytest.mark.parametrize("line", FORGED)
def test_other_output_within_a_result_or_before_it_on_its_line_does_not_change_it(line: str):
    first, *rest = result_lines("a" * 9000, KEY)
    assert read_result([f"{line[:40]} {first}", line, *rest], KEY) == "a" * 9000
    assert read_result([f"{line} {first}", *rest], KEY) == "a" * 9000


def test_output_before_a_result_on_its_line_is_kept():
    [line] = result_lines(3, KEY)
    assert read_result([f"epoch 1{line}"], KEY) == 3
    assert without_result(f"epoch 1{line}", KEY) == "epoch 1"
    assert without_result(line, KEY) is None
    assert without_result("epoch 1", KEY) == "epoch 1"
    assert without_result(f"seen: {line}, and more", KEY) == f"seen: {line}, and more"


def test_a_description_holds_nothing_that_kubernetes_replaces():
    call = FunctionCall("pay", source="price = '$$5'", args=["$$5", "$(HOME)"], kwargs={"$": "$"})
    text = encode_call(call)
    assert "$" not in text
    assert decode_call(text) == call


def test_a_call_comes_back_from_its_description():
    call = FunctionCall("train", module="pkg.train", args=[1, "b"], kwargs={"lr": 0.1})
    assert decode_call(encode_call(call)) == call


@pytest.mark.parametrize(
    ("args", "kwargs", "fault"), [([print], {}, r"args\[0\] is a"), ([], {"m": {1}}, r"kwargs\['m'\]")]
)
def test_arguments_that_are_not_plain_are_refused(args, kwargs, fault):
    with pytest.raises(PlainValueError, match=fault):
        encode_call(FunctionCall("train", args=args, kwargs=kwargs))


def test_arguments_that_no_environment_variable_holds_are_refused():
    with pytest.raises(PlainValueError, match="more than 98304"):
        encode_call(FunctionCall("train", args=["x" * 98304]))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"function": 3}', '{"function": "f", "args": 1, "kwargs": {}}', "[" * 9999]
)
def test_a_description_that_is_none_is_refused(text: str):
    with pytest.raises(PlainValueError):
        decode_call(text)
