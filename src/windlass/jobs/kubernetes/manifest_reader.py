"""Reads manifests: plain data of any shape, checked value by value, with the path of each value for errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from windlass.jobs.errors import FieldPath
from windlass.jobs.kubernetes.bounded_integers import MAX_INT32, parse_integer

Manifest: TypeAlias = dict[str, Any]
"""An API object as JSON gives it."""

_SHOWN = 40
"""Characters of an odd value that an error shows."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a manifest: the field, and a message that names the fix."""

    path: FieldPath
    message: str
    reason: str = ""
    """Reason for a condition, as a runtime's fault has it (`train_runtimes`); "" for a fault of the manifest itself."""
    choices: tuple[str, ...] = ()
    """The words of which one is expected."""

    def __str__(self) -> str:
        """In one line: "spec.runPolicy.backoffLimit: expects …"."""
        return f"{format_path(self.path)}: {self.message}"


class ManifestError(Exception):
    """Faults of a manifest, at least one and each once; `registry.read` returns the first instead of raising it."""

    def __init__(self, fault: Fault, *others: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.faults = tuple(dict.fromkeys((fault, *others)))


def read_all(*reads: Callable[[], Any]) -> list[Any]:
    """The results of reads that do not depend on each other. Raises ManifestError with the faults of all of them."""
    results, faults = list[Any](), list[Fault]()
    for read in reads:
        try:
            results.append(read())
        except ManifestError as error:
            faults += error.faults
    if faults:
        raise ManifestError(*faults)
    return results


def read_fields(**reads: Callable[[], Any]) -> dict[str, Any]:
    """As `read_all`, by name."""
    return dict(zip(reads, read_all(*reads.values()), strict=True))


def format_path(path: FieldPath) -> str:
    """A path as people write it, on one line: "spec.containers[0].image"."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_printable(part)}" for part in path)
    return "".join(parts).removeprefix(".") or "the manifest"


def _printable(name: str) -> str:
    """A name with escapes for line ends and control characters."""
    return name if name.isprintable() else repr(name)[1:-1]


@dataclass(
    slots=True, eq=False
)  # not frozen: two hundred are made for a job, and a frozen one takes three times as long
class ManifestField:
    """A value and its path. A field that is absent or null has the value None. Immutable by convention."""

    value: Any
    path: FieldPath = ()

    def __getitem__(self, name: str) -> ManifestField:
        """A field of a mapping. Raises ManifestError if this is none."""
        value = self.value
        inner = value.get(name) if isinstance(value, dict) else self.mapping().get(name)
        return ManifestField(inner, (*self.path, name))

    def refuse(self, message: str, choices: tuple[str, ...] = ()) -> NoReturn:
        """Raises ManifestError. `choices`: the words of which one is expected."""
        raise ManifestError(Fault(self.path, message, choices=choices))

    def mapping(self) -> dict[str, Any]:
        """A mapping; empty if absent."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.refuse(f"expects a mapping, not {_shown(self.value)}")
        return self.value

    def fields(self) -> list[tuple[str, ManifestField]]:
        """The entries of a mapping whose names are free."""
        return [(name, self[name]) for name in self.mapping()]

    def items(self) -> list[ManifestField]:
        """The items of a list; none if absent."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.refuse(f"expects a list, not {_shown(self.value)}")
        items = [ManifestField(item, (*self.path, number)) for number, item in enumerate(self.value)]
        for item in items:
            if item.value is None:
                item.refuse("is empty; remove it from the list")
        return items

    def text(self, default: str = "") -> str:
        """A text."""
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            self.refuse(f"expects a text, not {_shown(self.value)}; put it in quotes")
        return self.value

    def text_list(self) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(item.text() for item in self.items())

    def text_map(self) -> dict[str, str]:
        """A mapping of texts."""
        return {name: entry.text() for name, entry in self.fields()}

    def choice(self, values: tuple[str, ...], default: str) -> str:
        """One of some words; an empty text counts as absent."""
        word = self.text() or default
        if word not in values:
            self.refuse(f"expects {' or '.join(values)}, not {_shown(word)}", values)
        return word

    def integer(self, least: int = 0, most: int = MAX_INT32) -> int | None:
        """A whole number between two, both included; None if absent. A text is none."""
        if self.value is None:
            return None
        number = None if isinstance(self.value, str) else parse_integer(self.value, least, most)
        if number is None:
            self.refuse(f"expects a whole number from {least} to {most}, not {_shown(self.value)}")
        return number

    def flag(self, *, default: bool = False) -> bool:
        """True or false."""
        if self.value is None:
            return default
        if not isinstance(self.value, bool):
            self.refuse(f"expects true or false, not {_shown(self.value)}")
        return self.value


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**_SHOWN:
            return "a number that long"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
