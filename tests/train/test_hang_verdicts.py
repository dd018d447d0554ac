"""Ranks that hang under an agent: its files tell the data loader and the checkpoint apart, and name the rank."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_ranks import agent_environment

from windlass import wire
from windlass.cli.failure_report import diagnose_logs
from windlass.diagnose.flight.facts import read_hang_evidence

HERE = Path(__file__).parent
HANG = "factor=4,floor=3,initial=12,communication=3"


@pytest.mark.parametrize(
    ("phase", "cause", "rule"),
    [
        ("data", "dataloader-stuck", "stack-rank-in-data"),
        ("save", "storage-slow-or-hung", "stack-rank-in-checkpoint"),
    ],
)
def test_the_files_of_an_agent_name_the_late_rank_and_its_work(phase, cause, rule, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    agent = [sys.executable, "-m", "windlass.agent", "--nproc-per-node=2", "--max-restarts=0", f"--hang={HANG}"]
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    with (files / "agent.log").open("wb") as output:
        subprocess.run(
            [*agent, f"--log-dir={files}", HERE / "hang_script.py", tmp_path / "checkpoints", phase],
            env={
                **os.environ,
                **agent_environment(),
                "PYTHONPATH": paths,
                wire.GANG_SECRET: "5f" * 32,
                wire.RECORDS: str(files),
            },
            stdout=output,
            stderr=output,
            check=False,
            timeout=110,
        )
    facts = {fact.rule: fact for fact in read_hang_evidence(files.rglob("*"), expected_ranks=2).facts}
    assert facts.keys() == {"flight-missing-rank", rule}, [fact.evidence.text for fact in facts.values()]
    assert {fact.rank for fact in facts.values()} == {1}
    assert facts["flight-missing-rank"].values["now"].startswith("hang_script.py:")
    verdict = diagnose_logs([str(files)], show_secrets=False).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.rank) == (cause, 1)
