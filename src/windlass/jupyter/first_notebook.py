"""The notebook that a new workspace holds: its first cell checks the machine, the second one runs two ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "start.ipynb"
_TEXT = """\
# A notebook in a gang

The first cell shows what this member of the gang has: GPUs, CUDA, NCCL and memory. The second one runs on two ranks,
as a job of its own. Variables go in, and the value of the last line comes back."""
_CHECK = """\
from windlass.notebook import check_machine

print(check_machine())"""
_LOAD = "%load_ext windlass.notebook\nbase = 20"
_RANKS = """\
%%windlass -N 2 --cpus 0
import os

print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
base + int(os.environ["WORLD_SIZE"])"""


def write_first_notebook(workspace: Path) -> None:
    """Writes the first notebook into a workspace without files."""
    workspace.mkdir(parents=True, exist_ok=True)
    if not any(workspace.iterdir()):
        (workspace / NAME).write_text(json.dumps(_content(), indent=1) + "\n")


def _content() -> dict[str, Any]:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [_markdown(_TEXT), *(_code(number, text) for number, text in enumerate((_CHECK, _LOAD, _RANKS)))],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text.splitlines(keepends=True)}


def _code(number: int, text: str) -> dict[str, Any]:
    source = text.splitlines(keepends=True)
    rest: dict[str, Any] = {"execution_count": None, "metadata": {}, "outputs": []}
    return {"cell_type": "code", "id": f"cell-{number}", "source": source, **rest}
