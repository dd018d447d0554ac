"""Options of public batch scripts: each is imported, and no option disappears without a word."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.jobs.description.job_file import loads
from windlass.jobs.imports.imported_job import ImportedJob
from windlass.jobs.imports.job_text import job_text
from windlass.jobs.slurm.batch_script import read_script
from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.slurm.option_fields import WITHOUT_EFFECT
from windlass.jobs.slurm.sbatch_options import full_name
from windlass.jobs.syntax.text import Text

SCRIPTS = yaml.safe_load((Path(__file__).parent / "public_scripts.yaml").read_text(encoding="utf-8"))
DEFAULTS = ("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--gres=gpu:0", "--export=")
"""Options that state a default of sbatch, or of a job."""
MAX_COMMANDS = 160
"""Characters of the commands of a script whose licence is unknown."""
LOGS = ("--output", "--error")
GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "from-slurm.md"


def imported(script: dict[str, Any], without: str = "") -> ImportedJob:
    """The job of the options and commands of a script, perhaps without one option."""
    options = f"#!/bin/bash\n#SBATCH {script['options']}\n"
    words = [each for each in read_script(Text("", options)).options if full_name(each.name) != without]
    lines = [f"#SBATCH {each.name}={each.value}" if each.value else f"#SBATCH {each.name}" for each in words]
    return import_script(Text("job.sbatch", "\n".join(["#!/bin/bash", *lines, *script["body"], ""])))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script['repository']}/{script['path']}")
def test_each_option_has_an_effect_or_is_named(script):
    job = imported(script)
    loads(job_text(job, "job.sbatch"))
    named = {full_name(loss.part.split("=")[0]) for loss in job.losses}
    for option in read_script(Text("", f"#SBATCH {script['options']}\n")).options:
        name = full_name(option.name)
        written = f"{name}={option.value}"
        has_reason = name in named or name in WITHOUT_EFFECT or written.startswith(DEFAULTS)
        if name and not has_reason:
            assert imported(script, without=name) != job, f"{written} has no effect and is not named"


def test_sbatch_takes_each_script():
    for script in SCRIPTS:
        lines = ["#!/bin/bash", f"#SBATCH {script['options']}", *script["body"], ""]
        import_script(Text("job.sbatch", "\n".join(lines)), (), ())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"{script['repository']}/{script['path']}")
def test_each_script_names_its_licence_and_an_unknown_one_keeps_facts_alone(script):
    assert script["license"] in {"Apache-2.0", "BSD-3-Clause", "MIT", "MIT-0", "unknown"}
    if script["license"] == "unknown":
        assert sum(map(len, script["body"])) <= MAX_COMMANDS


def test_the_guide_states_how_many_are_imported_and_what_is_lost():
    jobs = [imported(script) for script in SCRIPTS]
    lost = [{full_name(loss.part.split("=")[0]) or loss.part for loss in job.losses} - {*LOGS} for job in jobs]
    whole = sum(not each for each in lost)
    most = ", ".join(
        f"`{part}` {count}" for part, count in Counter(part for each in lost for part in each).most_common(6)
    )
    text = (
        f"All {len(jobs)} are imported; {whole} lose nothing but the names of their log files, and in the other "
        f"{len(jobs) - whole} each loss is named. Most frequent: {most}."
    )
    assert text in " ".join(GUIDE.read_text(encoding="utf-8").split()), text
