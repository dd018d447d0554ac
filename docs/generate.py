"""Writes the generated pages: command line, rules, checks, metrics, tables of guides/from-kubeflow.md, all labs."""

import os
import subprocess
import sys
from pathlib import Path

from windlass.cli.verb_table import VERBS
from windlass.diagnose.check_pages import checks_page
from windlass.diagnose.lint.reference_page import rules_page
from windlass.diagnose.rule_reference import rules_page as diagnosis_rules_page
from windlass.labs.concept_cards import card_titles, read_card
from windlass.labs.lab_catalog import all_labs
from windlass.labs.printed_page import labs_page
from windlass.telemetry.metric_table import metrics_page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/kubernetes"))

from kubeflow_operators.guide import page

PAGE = Path(__file__).parent / "reference/cli.md"
RULES = Path(__file__).parent / "reference/lint-rules.md"
DIAGNOSIS_RULES = Path(__file__).parent / "reference/diagnosis-rules.md"
CHECKS = Path(__file__).parent / "reference/doctor-checks.md"
METRICS = Path(__file__).parent / "reference/metrics.md"
KUBEFLOW = Path(__file__).parent / "guides/from-kubeflow.md"
LABS = Path(__file__).parent / "guides/workshop-labs.md"
HEAD = """# The command line

For users of the command line: every verb as `windlass VERB --help` prints it. [Exit codes](exit-codes.md) are on
another page.
"""


def main() -> None:
    sections = [f"## {verb}\n\n```text\n{help_of(verb)}\n```" for verb in VERBS]
    PAGE.write_text("\n\n".join([HEAD, f"```text\n{help_of()}\n```", *sections]) + "\n", encoding="utf-8")
    RULES.write_text(rules_page(), encoding="utf-8")
    DIAGNOSIS_RULES.write_text(diagnosis_rules_page(), encoding="utf-8")
    CHECKS.write_text(checks_page(), encoding="utf-8")
    METRICS.write_text(metrics_page(), encoding="utf-8")
    LABS.write_text(labs_page(all_labs(), [read_card(name) for name in card_titles()]), encoding="utf-8")
    KUBEFLOW.write_text(page(KUBEFLOW.read_text(encoding="utf-8")), encoding="utf-8")


def help_of(*verb: str) -> str:
    command = [Path(sys.executable).with_name("windlass"), *verb, "--help"]
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(command, env=plain, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
