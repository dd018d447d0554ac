"""The guide's table of commands is complete, and each row has a test that calls what it names."""

from __future__ import annotations

import inspect

import pytest
from kubeflow.trainer import TrainerClient
from kubeflow.training import TrainingClient

from kubeflow_clients.commands import COMMANDS, KUBECTL, TRAINER, TRAINING, calls, words_after


@pytest.mark.parametrize(("tool", "client"), [(TRAINING, TrainingClient), (TRAINER, TrainerClient)])
def test_every_public_method_of_a_client_is_called_by_the_test_of_its_row(tool, client):
    public = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
    rows = [each for each in COMMANDS if each.tool == tool]
    called = calls(tool)
    assert sorted(each.name for each in rows) == sorted(public)
    assert not [each.name for each in rows if each.name not in called[each.test]]


def test_every_verb_of_kubectl_is_typed_by_the_test_of_its_row():
    typed = words_after(KUBECTL)
    rows = [each for each in COMMANDS if each.tool == KUBECTL]
    assert not [each.name for each in rows if not set(each.name.split()) <= typed[each.test]]
    assert {each.test for each in rows} == set(typed)
