"""The pre-commit hook and the GitHub action run the command as it is."""

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WINDLASS = ROOT / ".venv/bin"


def test_the_hook_checks_the_files_that_lint_checks_in_a_folder():
    from windlass.diagnose.lint.engine import SUFFIXES  # noqa: PLC0415 - loads all rules

    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "windlass lint"
    assert all(re.search(hook["files"], f"job{suffix}") for suffix in SUFFIXES)


def test_the_step_of_the_action_annotates_and_fails_at_an_error(tmp_path):
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    [script] = [step["run"] for step in steps if step.get("name") == "Check"]
    env = {"PATH": f"{WINDLASS}:/usr/bin:/bin", "LINT_PATHS": str(ROOT / "examples/broken"), "STRICT": "false"}
    ran = subprocess.run(["bash", "-e", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "title=gpu-resource-misspelt" in ran.stdout
    right = {**env, "LINT_PATHS": f"{ROOT / 'examples/kubernetes'} {ROOT / 'examples/digits'}", "STRICT": "true"}
    assert subprocess.run(["bash", "-e", "-c", script], env=right, capture_output=True, check=False).returncode == 0
