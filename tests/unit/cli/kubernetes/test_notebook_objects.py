"""Objects of a notebook in a cluster."""

from __future__ import annotations

import base64
import json

import pytest

from windlass.cli.kubernetes.notebook_objects import (
    default_name,
    in_pod,
    is_of_user,
    kept_files,
    secret_of,
    server_command,
    token_in,
)
from windlass.jobs.description.options import RunOptions, from_options


def pod(claim: str = ""):
    notebook = from_options(RunOptions(name="lesson", image="i"), server_command(60_000), cwd="/", user="ada")
    (role,) = in_pod(notebook, "windlass-notebook-1", claim).job.roles
    return json.loads(role.pod)


def test_the_files_are_in_a_claim_or_end_with_the_pod():
    assert pod("work")["spec"]["volumes"][0] == {"name": "notebook", "persistentVolumeClaim": {"claimName": "work"}}
    assert pod()["spec"]["volumes"][0] == {"name": "notebook", "emptyDir": {}}
    assert kept_files("work", 60_000) == "it ends after 1m without activity, its files are in the claim work"
    assert kept_files("", 0) == "it does not end by itself, its files end with the pod; --claim keeps them"


def test_an_image_with_any_user_reads_the_token():
    secret = pod()["spec"]["volumes"][1]["secret"]
    assert secret == {"secretName": "windlass-notebook-1", "defaultMode": 0o444}


def test_a_notebook_is_known_by_the_secret_of_its_pod():
    assert secret_of({"spec": {"pod": pod()}}) == "windlass-notebook-1"
    assert secret_of({"spec": {"pod": {"spec": {"volumes": [{"name": "data"}]}}}}) == ""
    assert secret_of({}) == ""


@pytest.mark.parametrize(
    "spec",
    [
        {"pod": {"spec": {"volumes": [{"name": "notebook-token"}]}}},
        {"pod": {"spec": {"volumes": [{"name": "notebook-token", "secret": {}}]}}},
        {"pod": {"spec": {"volumes": [{"name": "notebook-token", "secret": {"secretName": 7}}]}}},
        {"pod": {"spec": {"volumes": ["notebook-token", None]}}},
        {"pod": {"spec": {"volumes": {"name": "notebook-token"}}}},
        {"pod": "notebook-token"},
        [],
    ],
)
def test_an_object_with_other_content_is_no_notebook(spec: object):
    assert secret_of({"spec": spec}) == ""


def encoded(token: str) -> dict[str, dict[str, str]]:
    return {"data": {"token": base64.b64encode(token.encode()).decode()}}


def test_a_secret_without_a_token_is_an_error():
    assert token_in(encoded("kX3_-" * 8)) == "kX3_-" * 8
    with pytest.raises(ValueError, match="the Secret has no field token"):
        token_in({"data": {}})


@pytest.mark.parametrize("planted", ['x"><script>alert(1)</script>', "", "short", "k" * 40 + "&next=x"])
def test_a_planted_token_is_refused(planted: str):
    with pytest.raises(ValueError, match="the field token of the Secret holds no token of a notebook"):
        token_in(encoded(planted))


def test_a_notebook_is_of_the_user_who_submitted_it():
    job = {"metadata": {"annotations": {"windlass.dev/user": "ada"}}}
    assert is_of_user(job, "ada")
    assert not is_of_user(job, "bob")
    assert not is_of_user({"metadata": {}}, "")


@pytest.mark.parametrize(
    ("user", "name"), [("ada", "notebook-ada"), ("Ada.L@example.com", "notebook-ada-l-example-com"), ("@", "notebook")]
)
def test_the_default_name_contains_the_user(user: str, name: str):
    assert default_name(user) == name
