"""Rules about the form of options of batch scripts, and about what Slurm does with them before the script runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from windlass.diagnose.lint.batch_script import LintedScript
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rule import Subject, rule
from windlass.jobs.errors import Place

_SBATCH = "https://slurm.schedmd.com/sbatch.html"
_SHORT_EQUALS = re.compile(r"(?<=\s)(-[A-Za-z])=(?=\S)")
_SPACED_EQUALS = re.compile(r"(?<=\s)(--[a-z][a-z-]*)(?: +=| *= ) *(?=\S)")


@rule(RuleSeverity.ERROR, Subject.SCRIPT, fix="Write -N 2 or --nodes=2.", source=_SBATCH)
def sbatch_option_equals(script: LintedScript) -> Iterator[Hit]:
    """After a short option, or with spaces around it, = is a part of the value: Slurm refuses =2 as a number."""
    for number, line in enumerate(script.text.lines, 1):
        options = line.partition(" #")[0]
        if line.startswith("#SBATCH") and not {"'", '"'} & set(options):
            for pattern, end in ((_SHORT_EQUALS, " "), (_SPACED_EQUALS, "=")):
                for found in pattern.finditer(options):
                    place = Place(number, found.start() + 1, len(found[0]))
                    right = f"{found[1]}{end}"
                    message = f"{found[0].rstrip()} gives {found[1]} a value that begins with =, or none"
                    yield Hit(place, message, right, f"Write {right}VALUE.")


@rule(
    RuleSeverity.WARNING,
    Subject.SCRIPT,
    fix="Make the folder before sbatch: mkdir -p FOLDER && sbatch SCRIPT.",
    source=f"{_SBATCH}#OPT_output",
)
def sbatch_output_folder_late(script: LintedScript) -> Iterator[Hit]:
    """Slurm opens the file before the first command: without the folder the job fails at once and has no log."""
    made = [line for _, line in script.calls("mkdir")]
    for option in script.options:
        folder = str(PurePosixPath(option.value).parent) if option.name in ("--output", "--error") else "."
        if folder not in (".", "/") and any(_names(line, folder) for line in made):
            fix = f"Make the folder before sbatch: mkdir -p {folder[:60]} && sbatch SCRIPT."
            yield Hit(option.place, f"{option.name} is in {folder[:60]}, which the script makes itself", fix=fix)


def _names(line: str, folder: str) -> bool:
    """Tells whether a command names a folder, or one below it."""
    words = [word.strip("\"'").removeprefix("./").rstrip("/") for word in line.split()]
    wanted = folder.removeprefix("./")
    return any(word == wanted or word.startswith(f"{wanted}/") for word in words)
