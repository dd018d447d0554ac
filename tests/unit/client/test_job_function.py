from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import windlass
from windlass.client.call_fields import fields_of_call
from windlass.client.function_call import CALL, RESULT_KEY, decode_call


@windlass.job(nodes=2, gpus=4, env={"A": "1"})
def train_model(epochs: int, lr: float = 0.1) -> float:
    """Trains."""
    return epochs * lr


def test_a_decorated_function_keeps_its_name_and_runs_here_on_request():
    assert (train_model.__name__, train_model.__doc__) == ("train_model", "Trains.")  # type: ignore[attr-defined]
    assert train_model.function(2, lr=0.5) == 1.0


def test_the_decorator_needs_no_parentheses():
    @windlass.job
    def measure(size: int) -> int:
        return size

    assert measure.fields == {}
    assert measure.function(4) == 4


def test_arguments_that_the_function_does_not_take_are_refused_before_the_submission():
    with pytest.raises(windlass.InvalidRequestError, match="train_model: missing a required argument: 'epochs'"):
        train_model.bind()  # type: ignore[call-arg]
    with pytest.raises(windlass.InvalidRequestError, match=r"client.submit\(train_model.bind\(…\), nodes=2\)"):
        train_model.submit(1, nodes=2)  # type: ignore[call-arg]


def test_a_field_that_no_job_has_is_refused_at_the_decorator():
    with pytest.raises(windlass.InvalidRequestError, match="a job has no field node\nwrite nodes"):
        windlass.job(node=2)(len)  # type: ignore[call-overload]


async def later() -> int:
    return 1


def several() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(("function", "why"), [(later, "later is asynchronous"), (several, "several is a generator")])
def test_a_function_without_a_plain_result_is_refused_at_the_decorator(function: Callable[[], object], why: str):
    with pytest.raises(windlass.InvalidRequestError, match=why):
        windlass.job(function)


def test_in_a_rank_a_call_runs_the_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(CALL, "{}")
    assert train_model(2, lr=0.5) == 1.0


def test_the_fields_of_a_call_are_those_of_the_decorator_under_those_given():
    made = fields_of_call(train_model.bind(3, lr=0.2), {"nodes": 8, "env": {"B": "2"}}, in_cluster=True)
    assert {name: made.fields[name] for name in ("name", "nodes", "gpus")} == {
        "name": "train-model",
        "nodes": 8,
        "gpus": 4,
    }
    assert made.fields["command"] == ["python", "-m", "windlass.client.rank_call"]
    assert (made.fields["env"]["A"], made.fields["env"]["B"]) == ("1", "2")
    call = decode_call(made.fields["env"][CALL])
    assert (call.function, call.args, call.kwargs) == ("train_model", [3], {"lr": 0.2})


def test_each_job_has_a_key_of_its_own_for_its_result():
    first, second = (fields_of_call(train_model.bind(3), {}, in_cluster=True).fields["env"] for _ in range(2))
    assert len(first[RESULT_KEY]) == 32
    assert first[RESULT_KEY] != second[RESULT_KEY]


@pytest.mark.parametrize("field", ["command", "roles"])
def test_a_function_takes_no_command_of_its_own(field: str):
    with pytest.raises(windlass.InvalidRequestError, match=f"takes no {field}\nremove it"):
        fields_of_call(train_model.bind(1), {field: "true"}, in_cluster=False)


def test_arguments_that_are_not_plain_are_refused_before_the_submission():
    with pytest.raises(windlass.InvalidRequestError, match=r"args\[0\] is a object\npass numbers"):
        fields_of_call(train_model.bind(object()), {}, in_cluster=False)  # type: ignore[arg-type]
