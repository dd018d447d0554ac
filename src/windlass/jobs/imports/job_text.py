"""The job file of an imported file: its losses as comments, then the fields, long texts as blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windlass.jobs.description.rendering import write_fields
from windlass.jobs.imports.imported_job import ImportedJob

_BLOCK_SAFE = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")


def job_text(job: ImportedJob, source: str, kind: str = "batch script") -> str:
    """The file of a job, which reads back as its fields. `source` and `kind` name the imported file."""
    title = f"# Imported from the {kind} {_one_line(source)}."
    lost = [f"# {_one_line(str(each))}" for each in job.losses]
    heading = [title, *(["# Not in this job, or otherwise:"] if lost else []), *lost]
    return "\n".join(heading) + "\n" + _fields(job.fields)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _fields(fields: Mapping[str, Any]) -> str:
    """YAML of the fields; a long word of the command is a literal block, so that a script stays readable."""
    roles = fields.get("roles")
    if roles:
        return (
            write_fields({name: value for name, value in fields.items() if name != "roles"})
            + "roles:\n"
            + "".join(f"  {name}:\n" + _indented(_fields(role), "    ") for name, role in roles.items())
        )
    command = fields.get("command", [])
    others = {name: value for name, value in fields.items() if name != "command"}
    if not any("\n" in word for word in command):
        return write_fields(fields)
    return write_fields(others) + "command:\n" + "".join(_word(word) for word in command)


def _word(word: str) -> str:
    """An item of the command: a literal block if YAML can hold its text unchanged in one."""
    if "\n" in word and _BLOCK_SAFE.fullmatch(word) and word.strip("\n"):
        body = word.rstrip("\n")
        chomping = {0: "-", 1: ""}.get(len(word) - len(body), "+")
        return f"- |2{chomping}\n" + _indented(word if chomping == "+" else body + "\n", "  ")
    return write_fields([word])


def _indented(text: str, indent: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    return "".join(f"{indent}{line}\n" if line else "\n" for line in lines)
