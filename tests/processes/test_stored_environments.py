"""Secrets in the environment of a submission: no verb lists them, and they leave the disk with the job."""

from __future__ import annotations

from pathlib import Path

from terminal import daemon, ok, phase, windlass

MARKER = "MARKER-of-the-environment"
OWN = "MARKER-of-an-option"
VERBS = [
    ("queue",),
    ("queue", "--all"),
    ("status",),
    ("status", "one"),
    ("why",),
    ("why", "one"),
    ("why", "one", "--what-if", "gpus=1"),
    ("top", "--once"),
    ("top", "one", "--once"),
    ("history",),
    ("nodes",),
    ("share",),
    ("reserve",),
    ("snapshot",),
    ("logs", "one"),
    ("checkpoint", "ls", "one"),
    ("cancel", "nothing-of-this-name"),
]


def printed(state: Path, *forms: str) -> str:
    """Returns what all verbs print for people and in these formats."""
    runs = [windlass(state, *verb) for verb in VERBS]
    runs += [windlass(state, *verb, "-o", form) for verb in VERBS for form in forms]
    return "".join(ran.stdout + ran.stderr for ran in runs)


def on_disk(state: Path) -> bytes:
    """Returns the content of every regular file in the state folder."""
    return b"".join(file.read_bytes() for file in state.rglob("*") if file.is_file() and not file.is_socket())


def test_the_environment_of_a_client_is_never_listed_and_leaves_with_its_job(state: Path):
    words = ("submit", "--name", "one", "-G", "1", "--env", f"API_TOKEN={OWN}")
    words = (*words, "--", "sh", "-c", "sleep 100", "x", "--password", OWN, f"TOKEN={OWN}")
    with daemon(state, "--local-nodes", "1", "--local-gpus", "1"):
        ok(state, *words, env={"WANDB_KEY": MARKER})
        phase(state, "one", "Running")
        assert MARKER.encode() in on_disk(state), "a restarted daemon starts the job again with it"
        text = printed(state, "wide", "json", "yaml")
        assert "one-1" in text
        assert MARKER not in text
        assert OWN not in text

        ok(state, "cancel", "one")
        phase(state, "one", "Failed")
        assert MARKER.encode() not in on_disk(state)
        assert OWN.encode() not in on_disk(state)
        assert MARKER not in printed(state, "json")
    assert MARKER.encode() not in on_disk(state)
    records = printed(state, "json")
    assert MARKER not in records
    assert OWN not in records


def test_a_run_in_the_foreground_leaves_nothing_of_its_environment(state: Path):
    ran = windlass(state, "run", "--", "sh", "-c", 'test -n "$WANDB_KEY"', env={"WANDB_KEY": MARKER})
    assert ran.returncode == 0, ran.stderr
    assert MARKER.encode() not in on_disk(state)
    assert state.stat().st_mode & 0o777 == 0o700
    assert all(not file.lstat().st_mode & 0o077 for file in state.rglob("*") if not file.is_symlink())
