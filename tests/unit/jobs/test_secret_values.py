"""Values that by their names are secrets are hidden in everything of a job that verbs list."""

import json

import pytest

from windlass.core.model.job import Job, Role
from windlass.jobs.secret_values import hide_in_command, hide_secrets


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["train.py", "--api-key", "K1"], ["train.py", "--api-key", "***"]),
        (["train.py", "--api-key=K1", "--lr", "1"], ["train.py", "--api-key=***", "--lr", "1"]),
        (
            ["env", "HF_TOKEN=K1", "AWS_SECRET_ACCESS_KEY=K2", "LR=1"],
            ["env", "HF_TOKEN=***", "AWS_SECRET_ACCESS_KEY=***", "LR=1"],
        ),
        (["sh", "-c", "TOKEN=K1 run; PASSWORD='K2 K3' run"], ["sh", "-c", "TOKEN=*** run; PASSWORD=*** run"]),
        (["sh", "-c", "train --token K1 --lr 1 && x"], ["sh", "-c", "train --token *** --lr 1 && x"]),
        (["sh", "-c", "curl -H 'token: K1'"], ["sh", "-c", "curl -H 'token: ***'"]),
        (["run", "postgres://me:K1@host/db"], ["run", "postgres://me:***@host/db"]),
        (["run", "--password", "--verbose"], ["run", "--password", "--verbose"]),
        (["run", "--db.password", "K1"], ["run", "--db.password", "***"]),
    ],
)
def test_secrets_in_a_command_are_hidden(words, shown):
    assert list(hide_in_command(words)) == shown


@pytest.mark.parametrize(
    "words",
    [
        ["python", "train.py", "--max-tokens", "2048", "--tokenizer=gpt2", "--author", "me"],
        ["sh", "-c", "key=3; monkey=4; echo $HF_TOKEN"],
        ["curl", "http://host:80/path@x", "s3://bucket/tokens"],
        ["python", "-c", "print('a: b')"],
    ],
)
def test_other_words_of_a_command_stay(words):
    assert list(hide_in_command(words)) == words


def test_a_long_word_is_searched_once():
    words = ("a" * 300_000, "-" * 300_000, "a://" * 100_000, "a=" * 100_000, "-a " * 100_000)
    assert hide_in_command(words) == words


def test_secrets_among_the_variables_of_a_cell_are_hidden():
    call = {"function": "run_cell", "args": ["f(api_key)", {"api_key": "K1", "token": 7, "in": {"password": "K2"}}]}
    (role,) = hide_secrets(Job("cell", (Role(env={"WINDLASS_CALL": json.dumps(call)}),))).roles
    shown = {"api_key": "***", "token": 7, "in": {"password": "***"}}
    assert json.loads(role.env["WINDLASS_CALL"])["args"] == ["f(api_key)", shown]


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_call_that_is_no_json_is_hidden(text: str):
    (role,) = hide_secrets(Job("cell", (Role(env={"WINDLASS_CALL": text}),))).roles
    assert role.env == {"WINDLASS_CALL": "***"}


def test_a_call_without_secrets_stays():
    env = {"WINDLASS_CALL": '{"args": [{"max_tokens": 3, "tokenizer": "gpt2"}]}'}
    (role,) = hide_secrets(Job("cell", (Role(env=env),))).roles
    assert role.env == env


def test_variables_and_pod_templates_are_hidden_by_their_names():
    variables = [{"name": "HF_TOKEN", "value": "K1"}, {"name": "LR", "value": "1"}, {"name": "DB_PASSWORD"}]
    pod = {"spec": {"containers": [{"env": variables, "args": ["--token", "K2"], "command": ["a"], "tty": True}]}}
    job = Job(
        "digits", roles=(Role(env={"API_TOKEN": "K3", "LR": "1"}, command=("a", "--token=K4"), pod=json.dumps(pod)),)
    )
    (role,) = hide_secrets(job).roles
    assert role.env == {"API_TOKEN": "***", "LR": "1"}
    assert role.command == ("a", "--token=***")
    (shown,) = json.loads(role.pod)["spec"]["containers"]
    assert shown["env"] == [{"name": "HF_TOKEN", "value": "***"}, {"name": "LR", "value": "1"}, {"name": "DB_PASSWORD"}]
    assert (shown["args"], shown["command"], shown["tty"]) == (["--token", "***"], ["a"], True)
