"""The paths of a job in the code of this machine's backend stay short: to its first rank, and to a rank's next start.

`code_path` says what a place is; `local_path` runs the job, `agent_path` an agent with two ranks.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

HAND_OVERS = {
    "start": (
        "read_submissions",
        "LocalBackend.inject",
        "JobLedger.update",
        "Turn.add_state",
        "Turn.add",
        "new_gang",
        "spawn_message",
        "Spawner.start",
    ),
    "restart": (
        "SupervisedGang.report",
        "MemberTracker.end",
        "Inbox.put",
        "JobLedger.update",
        "Turn.add_state",
        "Turn.add",
        "StateStore.commit",
        "LaunchedGangs._send_stop",
        "new_gang",
        "spawn_message",
        "Spawner.start",
    ),
    "agent": ("RankReports.send", "step", "RankProcesses.send_signal", "ForkServerClient.run"),
}
"""By path: the functions at which a stage of it leaves its result for the next one."""
CODES = {"start": 0, "restart": 3, "agent": 0}
SCRIPTS = {"start": ("local_path.py", "start"), "restart": ("local_path.py", "restart"), "agent": ("agent_path.py",)}
TESTS = Path(__file__).parents[1]
DESIGN = TESTS.parent / "docs" / "design" / "architecture.md"
SECTIONS = {
    "start": "### From the command line to",
    "restart": "### From a rank's end to its next start, on this machine",
    "agent": "### From a rank's end to its next start, in an agent",
}
"""By path: the beginning of its section in the design."""


def trace(which: str, state: Path, *hand_overs: str) -> SimpleNamespace:
    """The counts of a path, its places as text, and the hand-overs that were not called."""
    script, *words = SCRIPTS[which]
    command = [sys.executable, TESTS / "processes" / script, *words, state, *hand_overs]
    variables = {"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=variables, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    path = SimpleNamespace(**json.loads(done.stdout.splitlines()[-1]))
    assert path.code == CODES[which], done.stderr.decode()
    return path


@pytest.mark.parametrize("which", SCRIPTS)
def test_the_design_names_each_place_of_the_path(which, tmp_path):
    path = trace(which, tmp_path, *HAND_OVERS[which])
    section = DESIGN.read_text().partition(SECTIONS[which])[2].partition("##")[0]
    assert [name for name in path.functions if f"{name}`" not in section] == [], path.text


@pytest.mark.parametrize(("which", "modules", "returns"), [("start", 8, 5), ("restart", 8, 5), ("agent", 8, 5)])
def test_a_path_to_the_start_of_a_rank_is_short(which, modules, returns, tmp_path):
    path = trace(which, tmp_path, *HAND_OVERS[which])
    assert path.missed == []
    assert path.places <= 20, path.text
    assert path.modules <= modules, path.text
    assert path.returns <= returns, path.text
    assert path.names <= 15, path.text


@pytest.mark.parametrize(("which", "places", "modules", "returns"), [("start", 35, 18, 9), ("restart", 37, 12, 15)])
def test_few_functions_pass_the_job_to_others(which, places, modules, returns, tmp_path):
    """Counts also what a stage only asks for, such as the next timer of a job."""
    path = trace(which, tmp_path)
    assert path.places <= places, path.text
    assert path.modules <= modules, path.text
    assert path.returns <= returns, path.text
    assert path.names <= 15, path.text
