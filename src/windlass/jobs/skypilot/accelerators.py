"""`resources.accelerators` of a task of SkyPilot: one accelerator with its number, or alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.jobs.imports.file_entry import FileEntry
from windlass.jobs.imports.outcomes import Outcome, Setting
from windlass.jobs.syntax.yaml_tree import ListNode

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_COUNT = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,3})?")
_NO_GPU = re.compile(r"tpu|inferentia|trainium|neuron", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A model and its number on each node, in thousandths."""

    name: str
    milli: int


def read_accelerators(entry: FileEntry) -> list[Accelerator]:
    """All alternatives, in the order in which they are written. Raises InputError."""
    if entry.is_empty:
        return []
    if isinstance(entry.node, ListNode):
        return [_read_words(entry, item.text()) for item in entry.items()]
    if entry.is_mapping:
        return [
            _read_words(entry, name if value.is_empty else f"{name}:{value.text()}")
            for name, value in entry.mapping().items()
        ]
    return [_read_words(entry, entry.text())]


def _read_words(entry: FileEntry, words: str) -> Accelerator:
    name, _, count = words.replace(" ", "").partition(":")
    if not _NAME.fullmatch(name) or not _COUNT.fullmatch(count or "1"):
        raise entry.error(f"expects a model with a number, such as H100:8, not {words[:40]!r}")
    whole, _, part = (count or "1").partition(".")
    return Accelerator(name, int(whole) * 1000 + int(part.ljust(3, "0") or 0))


def accelerator_fields(entry: FileEntry, alternatives: Sequence[Accelerator]) -> Iterator[Outcome]:
    """GPUs of each node: the number of the first alternative, and every model that is asked for in this number."""
    gpus = [each for each in alternatives if not _NO_GPU.match(each.name)]
    if len(gpus) < len(alternatives):
        yield entry.lost("only GPUs are scheduled; the job asks for none of the other accelerators")
    if not gpus or not gpus[0].milli:
        return
    number = gpus[0].milli
    if number % 1000 and number > 1000:
        raise entry.error("expects whole GPUs, or a part of a single one")
    yield Setting("gpu_share", f"{number}m") if number % 1000 else Setting("gpus", number // 1000)
    yield Setting("gpu_type", list(dict.fromkeys(each.name for each in gpus if each.milli == number)))
    others = [f"{each.name}:{each.milli / 1000:g}" for each in gpus if each.milli != number]
    if others:
        yield entry.lost(f"a job has one number of GPUs: without {', '.join(others)[:80]}")


def gpus_of(alternatives: Sequence[Accelerator]) -> int:
    """The number that SKYPILOT_NUM_GPUS_PER_NODE has: GPUs of each node, a part counts as one."""
    gpus = [each for each in alternatives if not _NO_GPU.match(each.name)]
    return -(-gpus[0].milli // 1000) if gpus else 0
