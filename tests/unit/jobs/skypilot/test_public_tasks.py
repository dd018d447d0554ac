"""Tasks of SkyPilot's examples: each is imported, and no field disappears without a word."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.jobs.description.job_file import loads
from windlass.jobs.imported_file import ImportedFile, import_file
from windlass.jobs.syntax.text import Text

TASKS = yaml.safe_load((Path(__file__).parent / "public_tasks.yaml").read_text(encoding="utf-8"))
GUIDE = Path(__file__).parents[4] / "docs/guides/from-skypilot.md"
DEFAULTS = {"num_nodes": 1}
"""Fields that state a default."""


def imported(text: str) -> ImportedFile:
    return import_file(Text("task.yaml", text))


def parts(fields: dict[str, Any]) -> list[tuple[str, ...]]:
    """Paths of the fields of a task, those of `resources` one by one."""
    own = [(name,) for name, value in fields.items() if name != "resources" and DEFAULTS.get(name) != value]
    return own + [("resources", name) for name in fields.get("resources", {})]


def without(documents: list[Any], number: int, path: tuple[str, ...]) -> str:
    """The file without one field."""
    fields = yaml.safe_load(yaml.safe_dump(documents))
    holder = fields[number]
    for name in path[:-1]:
        holder = holder[name]
    del holder[path[-1]]
    return yaml.safe_dump_all(fields, sort_keys=False)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["path"])
def test_each_field_has_an_effect_or_is_named(task):
    whole = imported(task["task"])
    loads(whole.text("task.yaml"))
    documents = list(yaml.safe_load_all(task["task"]))
    lost = {loss.part for job in whole.jobs for loss in job.losses}
    for number, fields in enumerate(documents):
        for path in parts(fields):
            named = ".".join(path)
            if path == ("run",) or any(part.startswith(named) for part in lost) or path == ("execution",):
                continue
            changed = imported(without(documents, number, path))
            assert [job.fields for job in changed.jobs] != [job.fields for job in whole.jobs], f"{named} has no effect"


def test_the_guide_states_how_many_are_imported_and_what_is_lost():
    files = [imported(task["task"]) for task in TASKS]
    lost = [{".".join(each.part.split(".")[:2]) for job in file.jobs for each in job.losses} for file in files]
    fields = Counter(part for each in lost for part in each if part.startswith(("resources", "setup", "service")))
    most = ", ".join(f"`{part}` {fields[part]}" for part in sorted(fields, key=lambda part: (-fields[part], part))[:5])
    text = f"All {len(files)} are imported, and each loss is named; most frequent: {most}."
    assert text in " ".join(GUIDE.read_text(encoding="utf-8").split()), text
