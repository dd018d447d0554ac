"""Host lists of Slurm: "n[1-4,7],login1" and the names that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_HOSTS = 10_000
"""Names of one list."""
_PART = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)")


def expand_hosts(text: str) -> list[str]:
    """The names of a list, in order. Raises ValueError."""
    names: list[str] = []
    for part in _PART.findall(text.replace(" ", "")):
        for name in _expand(part):
            names.append(name)
            if len(names) > MAX_HOSTS:
                raise ValueError(f"expects at most {MAX_HOSTS} names of nodes")
    if not names:
        raise ValueError(f"expects names of nodes such as n[1-4], not {text[:40]!r}")
    return names


def _expand(part: str) -> Iterator[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, _, after = rest.partition("]")
    for word in inside.split(","):
        found = _RANGE.fullmatch(word)
        if found is None or int(found[2] or found[1]) - int(found[1]) > MAX_HOSTS:
            raise ValueError(f"expects numbers and ranges in brackets, not {inside[:40]!r}")
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            for tail in _expand(after):
                yield f"{before}{number:0{len(found[1])}}{tail}"


def compress_hosts(names: Sequence[str]) -> str:
    """The shortest list of names in their order that `expand_hosts` reads: consecutive numbers become ranges."""
    groups: list[tuple[str, list[str]]] = []
    for name in names:
        found = _NUMBERED.fullmatch(name)
        prefix, number = (found[1], found[2]) if found and len(found[2]) < 10 else (name, "")
        if number and groups and groups[-1][0] == prefix and groups[-1][1]:
            groups[-1][1].append(number)
        else:
            groups.append((prefix, [number] if number else []))
    return ",".join(_written(prefix, numbers) for prefix, numbers in groups)


def _written(prefix: str, numbers: Sequence[str]) -> str:
    if len(numbers) < 2:
        return prefix + "".join(numbers)
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][1]) + 1 and len(number) == len(runs[-1][1]):
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return f"{prefix}[{','.join(first if first == last else f'{first}-{last}' for first, last in runs)}]"
