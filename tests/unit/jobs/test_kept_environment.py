"""Variables kept after the end of a job: all but those whose values may be secrets."""

import pytest

from windlass.jobs.kept_environment import hidden_names, with_secrets_of, without_secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "x"),
        ("WANDB_KEY", "x"),
        ("DB_PWD", "x"),
        ("GITLAB_PAT", "x"),
        ("SESSION_COOKIE", "x"),
        ("DATABASE", "postgres://me:secret@host/db"),
        ("PUSH_TO", "ghp_0123456789abcdefghij"),
        ("OPTIONS", "--password x1"),
    ],
)
def test_a_value_that_may_be_a_secret_is_hidden(name: str, value: str):
    assert without_secrets({name: value}) == {name: "***"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/opt/conda/bin:/usr/bin"),
        ("PWD", "/home/ada"),
        ("NCCL_DEBUG", "INFO"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("LANG", "de_DE.UTF-8"),
        ("WINDLASS_CHECKPOINTS", "s3://bucket/run"),
        ("EMPTY", ""),
    ],
)
def test_other_values_are_kept(name: str, value: str):
    assert without_secrets({name: value}) == {name: value}


def test_hidden_values_are_taken_from_the_present_environment_or_left_out():
    kept = without_secrets({"PATH": "/opt/bin", "HF_TOKEN": "old", "WANDB_KEY": "old"})
    assert hidden_names(kept) == ("HF_TOKEN", "WANDB_KEY")
    assert with_secrets_of(kept, {"HF_TOKEN": "new", "PATH": "/bin"}) == {"PATH": "/opt/bin", "HF_TOKEN": "new"}
