"""An upgrade and a rollback: state written by an earlier commit is read by this one, and what this one wrote by that.

The earlier commits are the one before this and the last one before checksums. A clone without them skips.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import terminal

from earlier_commits import EARLIER, WITHOUT_CHECKSUMS, source_of

_MAIN = "from windlass.cli.entry import main; main()"
_FACTS = ("id", "name", "phase", "reason", "exit_code", "attempts", "created_at", "finished_at")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a function that unpacks an earlier commit once: Python compiles its source only once too."""
    return cache(lambda commit: source_of(commit, tmp_path_factory.mktemp("earlier")))


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, sources: Callable[[str], Path]) -> Path:
    """The source of an earlier commit."""
    return sources(request.param)


class Version:
    """The command line of a commit, on one state folder."""

    def __init__(self, source: Path, state: Path) -> None:
        self._environment = terminal.environment(state, PYTHONPATH=str(source))

    def run(self, *words: str) -> str:
        command = [sys.executable, "-c", _MAIN, *words]
        ran = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, f"{words} → {ran.returncode}: {ran.stderr}"
        return ran.stdout

    def up(self, *words: str) -> None:
        """Starts a daemon."""
        self.run("up", "-d", *words)

    def submit(self, name: str, script: str) -> None:
        self.run("submit", "--name", name, "--", "sh", "-c", script)

    def await_end(self, name: str) -> dict[str, Any]:
        """Waits until a job has ended; returns its facts."""
        for _ in range(200):
            time.sleep(0.2)
            found = json.loads(self.run("status", name, "-o", "json"))
            if found["finished_at"] is not None:
                return {fact: found[fact] for fact in _FACTS}
        raise AssertionError(found)

    def history(self) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.run("history", "-o", "json"))
        return {row["name"]: {fact: row[fact] for fact in _FACTS} for row in rows}


class PresentVersion(Version):
    """The command line of this commit, which the tests have imported already."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def run(self, *words: str) -> str:
        return terminal.ok(self._state, *words)

    def up(self, *words: str) -> None:
        terminal.start_daemon(self._state, *words)


def test_state_survives_an_upgrade_and_a_rollback(earlier: Path, state: Path, tmp_path: Path) -> None:
    before, now = Version(earlier, state), PresentVersion(state)
    gate = tmp_path / "gate"
    # 1. the earlier commit writes: a success, a failure, and a job that runs on
    before.up("--local-nodes", "2", "--local-gpus", "2")
    before.submit("good", "true")
    before.submit("bad", "exit 3")
    before.submit("long", f"until test -e '{gate}'; do sleep 0.05; done")
    ended = {name: before.await_end(name) for name in ("good", "bad")}
    assert (ended["good"]["phase"], ended["bad"]["exit_code"]) == ("Succeeded", 3)
    before.run("down", "--keep-jobs")
    # 2. this one reads it, with the supervisor of the earlier one, and writes
    now.up()
    assert now.history() == ended
    assert json.loads(now.run("status", "long", "-o", "json"))["phase"] == "Running"
    now.submit("upgraded", "true")
    ended["upgraded"] = now.await_end("upgraded")
    now.run("down", "--keep-jobs")
    # 3. rolled back, the earlier one reads that, and the job has run all the time
    before.up()
    assert before.history() == ended
    gate.touch()
    ended["long"] = before.await_end("long")
    assert (ended["long"]["phase"], ended["long"]["attempts"]) == ("Succeeded", 1)
    before.submit("rolled-back", "true")
    ended["rolled-back"] = before.await_end("rolled-back")
    before.run("down", "--keep-jobs")
    # 4. and upgraded again; the ids go on
    now.up()
    assert now.history() == ended
    now.submit("last", "true")
    ended["last"] = now.await_end("last")
    now.run("down", "--keep-jobs")
    assert len({job["id"] for job in ended.values()}) == len(ended)
    assert [int(ended[name]["id"].rpartition("-")[2]) for name in ("upgraded", "rolled-back", "last")] == [4, 5, 6]


def test_a_supervisor_serves_a_controller_of_an_earlier_commit(
    state: Path, tmp_path: Path, sources: Callable[[str], Path]
) -> None:
    """Rolled back while jobs run: the supervisor that this commit started gets the messages of the earlier one."""
    before, now = Version(sources(WITHOUT_CHECKSUMS), state), PresentVersion(state)
    gate = tmp_path / "gate"
    now.up("--local-nodes", "2", "--local-gpus", "2")
    now.submit("long", f"until test -e '{gate}'; do sleep 0.05; done")
    now.run("down", "--keep-jobs")
    before.up()
    before.submit("other", "true")
    assert before.await_end("other")["phase"] == "Succeeded"
    gate.touch()
    assert before.await_end("long")["attempts"] == 1
    before.run("down")
