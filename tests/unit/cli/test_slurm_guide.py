"""The table of commands in the guide for users of Slurm: each row is run."""

import re
from pathlib import Path

import pytest

from windlass.cli.verb_table import SLURM_VERBS

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "from-slurm.md"
SECTION = GUIDE.read_text(encoding="utf-8").partition("## Commands")[2]
ROWS = [line.split("|")[1:3] for line in SECTION.splitlines() if line.startswith("| `")]
COMMANDS = [(slurm, re.findall(r"`(windlass [^`]*)`", windlass)) for slurm, windlass in ROWS]
OF_PROCESSES = ("srun", "salloc")
"""Verbs whose rows start processes: `tests/processes/test_slurm_steps.py` runs them."""


@pytest.fixture
def cluster(daemon, lines, tmp_path, monkeypatch):
    """A daemon that answers every request of the table, and a batch script."""
    monkeypatch.chdir(tmp_path)
    Path("job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun ./train\n")
    rows = lines("running", "queued")
    changed = {"jobs": [{"id": "digits-1"}], "errors": []}
    daemon.says |= {
        "/v1/jobs": {"jobs": rows, "ids": ["train-7"]},
        "/v1/nodes": {"nodes": []},
        "/v1/queues": {"queues": []},
        "/v1/jobs/digits-1/update": changed,
        **{f"/v1/{verb}": changed for verb in ("cancel", "suspend", "resume")},
    }
    return daemon


def test_each_verb_of_slurm_has_a_row():
    words = {command.split()[1] for _, commands in COMMANDS for command in commands}
    assert words >= SLURM_VERBS


@pytest.mark.parametrize(("slurm", "commands"), COMMANDS, ids=lambda each: str(each)[:60])
def test_the_command_of_a_row_runs(cluster, windlass, slurm, commands):
    assert commands, f"{slurm} has no command of Windlass"
    for command in commands:
        words = command.replace("ID", "digits-1").replace("ARGS", "x").split()
        if words[1] not in OF_PROCESSES:
            ran = windlass(*[word for word in words[1:] if word != "…"])
            assert ran.code == 0, ran.err


@pytest.mark.parametrize("word", ["release", "suspend", "resume", "requeue"])
def test_the_other_words_of_a_row_run(cluster, windlass, word):
    assert windlass("scontrol", word, "digits-1") == (0, "", "")
