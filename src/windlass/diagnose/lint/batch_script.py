"""A batch script of Slurm as rules see it: with the variables that it exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.diagnose.lint.environment import exported_variables
from windlass.diagnose.lint.values import Value
from windlass.jobs.slurm.batch_script import BatchScript, read_script
from windlass.jobs.syntax.text import Text


@dataclass(frozen=True, slots=True)
class LintedScript(BatchScript):
    """A batch script with its environment."""

    @property
    def env(self) -> Mapping[str, Value]:
        """The variables that the script exports."""
        return exported_variables(self.text.lines)

    @property
    def limits(self) -> Mapping[str, Value]:
        """A script has no limits of resources of Kubernetes."""
        return {}


def read_linted_script(text: Text) -> LintedScript:
    """Reads a script; lines that are no options of sbatch are left as they are."""
    script = read_script(text)
    return LintedScript(script.text, script.options, script.commands)
