"""A page for each check of `windlass doctor host`, `cluster` and `slow`: what it judges, and why that matters."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

import yaml

from windlass.jobs.errors import input_error
from windlass.jobs.syntax.names import did_you_mean

ROOT = "doctor"
"""First word of the path of a page: `windlass explain doctor.gpu.ecc`."""
_WIDTH = 80
_HEAD = """# Checks of `windlass doctor`

For users of [`windlass doctor host`](../guides/doctor-host.md), [`cluster`](../guides/doctor-cluster.md) and
[`slow`](../guides/doctor-slow.md): every check, what it judges, and why that matters. `windlass explain doctor.CHECK`
prints one. A step that is a warning or wrong prints its fix.
"""


class Check(NamedTuple):
    """One check. `verb`: the one of `windlass doctor` that runs it; `subject`: part of the name after a colon."""

    name: str
    verb: str
    judges: str
    why: str
    subject: str = ""


@functools.cache
def load_checks() -> Mapping[str, Check]:
    """Returns all checks by name, in the order of the reports."""
    table = yaml.safe_load((files("windlass.diagnose") / "checks.yaml").read_text(encoding="utf-8"))
    return {name: Check(name, verb, **texts) for verb, checks in table.items() for name, texts in checks.items()}


def find_check(step: str) -> Check | None:
    """Returns the check of a step by the step's name, such as `pool.ready:a`; None for a name of no check."""
    name = step.partition(":")[0]
    family = {"access": "access.KIND", "operator": "operator.NAME"}.get(name.partition(".")[0], "")
    checks = load_checks()
    return checks.get(name) or checks.get(family)


def explain_check(path: str) -> str:
    """Returns the page of "doctor.gpu.ecc", or for "doctor" the list of all checks. Raises InputError."""
    name = path.removeprefix(ROOT).removeprefix(".")
    if not name:
        return _overview()
    check = find_check(name)
    if check is None:
        hint = did_you_mean(name, load_checks()) or f"; windlass explain {ROOT} lists all"
        raise input_error(ROOT, f"has no check {name[:40]!r}{hint}")
    shown = f"{check.name}:{check.subject.upper()}" if check.subject else check.name
    lines = [shown, "", *textwrap.wrap(check.judges, _WIDTH), "", *textwrap.wrap(check.why, _WIDTH), ""]
    return "\n".join([*lines, f"RUN BY  windlass doctor {check.verb}"]) + "\n"


def _overview() -> str:
    width = max(map(len, load_checks()))
    lines = [f"{ROOT}\n\nChecks of windlass doctor. windlass explain {ROOT}.CHECK tells more."]
    for verb in dict.fromkeys(check.verb for check in load_checks().values()):
        own = [check for check in load_checks().values() if check.verb == verb]
        lines += ["", f"WINDLASS DOCTOR {verb.upper()}", *(f"  {each.name:<{width}}  {each.judges}" for each in own)]
    return "\n".join(lines) + "\n"


def checks_page() -> str:
    """Returns the reference page of all checks, in Markdown."""
    sections, checks = [], load_checks().values()
    for verb in dict.fromkeys(check.verb for check in checks):
        rows = [f"| `{each.name}` | {each.judges} | {each.why} |" for each in checks if each.verb == verb]
        head = [f"## windlass doctor {verb}", "", "| check | what it judges | why that matters |", "|---|---|---|"]
        sections.append("\n".join([*head, *rows]))
    return "\n\n".join([f"{_HEAD}\n{len(load_checks())} checks.", *sections]) + "\n"
