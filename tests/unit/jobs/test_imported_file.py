"""Mutated files of SkyPilot and TorchX: each is a job file that reads back, or one clear error."""

import random
from pathlib import Path

import pytest
import yaml

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.imported_file import import_file
from windlass.jobs.syntax.text import Text

FOLDER = Path(__file__).parent
TASKS = [task["task"] for task in yaml.safe_load((FOLDER / "skypilot/public_tasks.yaml").read_text(encoding="utf-8"))]
CONFIGS = [
    config["text"] for config in yaml.safe_load((FOLDER / "torchx/public_configs.yaml").read_text(encoding="utf-8"))
]
APP = """{"name": "A", "metadata": {"a": 1}, "roles": [{"name": "w", "entrypoint": "python", "image": "a:1",
 "args": ["${app_id}", "x"], "env": {"A": "${replica_id}"}, "num_replicas": 2, "min_replicas": 1, "max_retries": 2,
 "retry_policy": "REPLICA", "resource": {"cpu": 1, "gpu": 2, "memMB": 3, "capabilities": {}, "devices": {"a": 1}}}]}"""
ODD = [
    "",
    "null",
    "[]",
    "{}",
    "-1",
    "1e400",
    "'",
    '"',
    "\0",
    "\u2028",
    "&a",
    "*a",
    "- x",
    ": ",
    "true",
    "$",
    "`",
    "|\n",
]


def mutated(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        text = text[:start] + chance.choice(ODD) + text[start + chance.randint(0, 12) :]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_file_is_a_job_or_one_error(seed: int):
    chance = random.Random(seed)  # noqa: S311 - files, no secrets
    imported = 0
    for _ in range(400):
        base = chance.choice([*TASKS, *CONFIGS, APP])
        is_config = base in CONFIGS
        text = Text(".torchxconfig" if is_config else "task.yaml", mutated(base, chance))
        try:
            file = import_file(text, ["--script", "a.py"] if is_config else [])
        except InputError:
            continue
        imported += 1
        loads(file.text("mutated"))
    assert imported > 40
