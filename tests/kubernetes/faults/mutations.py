"""Malformed objects: valid ones, changed in one to three fields by a seeded random number generator."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

from deploy.refused_manifests import KINDS, malformed, whole
from deploy.samples import sample

Manifest = dict[str, Any]
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1.5, 1e300),
    *(
        "",
        " ",
        "a",
        "A_b",
        "-",
        "1",
        "-1",
        "true",
        "1h",
        "1Ti",
        "9" * 40,
        "x" * 300,
        "é✓",
        "a\nb",
        "{}",
        "$(A)",
        "../..",
    ),
    *(
        [],
        [None],
        [1],
        [""],
        [[]],
        [{}],
        ["a", "a"],
        {},
        {"": ""},
        {"a": None},
        {"a": {"b": [{"c": {}}]}},
        {"a": "b" * 5000},
    ),
)
WORDS = (
    "replicas",
    "nodes",
    "suspend",
    "template",
    "spec",
    "elastic",
    "after",
    "later",
    "windlass",
    "roles",
    "pod",
    "Worker",
)
NOTES = (
    "windlass.dev/queue",
    "windlass.dev/generation",
    "windlass.dev/state",
    "windlass.dev/array",
    "windlass.dev/array-index",
    "windlass.dev/user",
    "windlass.dev/cancel",
    "windlass.dev/job-name",
)
Spot = tuple[Any, Any]
"""A mapping or list, and a key of it."""


def mutated(count: int, seed: int) -> Iterator[Manifest]:
    """Mutated objects with unique names."""
    chance = random.Random(seed)  # noqa: S311 - faults, not secrets
    seeds, wrong = list(good()), list(bad())
    for number in range(count):
        made = copy.deepcopy(chance.choice(wrong if chance.random() < 0.2 else seeds))
        for _ in range(chance.choice((1, 1, 2, 3))):
            mutate(made, chance)
        made["metadata"] = _named(made["metadata"], f"mutant-{number}")
        yield made


def good() -> Iterator[Manifest]:
    """Valid objects; most of them are suspended, so that few get pods."""
    for kind in KINDS:
        job = whole(kind)
        yield job
        job = copy.deepcopy(job)
        job["spec"]["runPolicy"] |= {"suspend": True, "cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}
        yield from (job, job, job)
    short = {**sample("TrainingJob"), "metadata": {"name": "any", "namespace": "default"}}
    yield short
    short = {**short, "spec": {**short["spec"], "suspend": True}}
    roles = {"a": {"command": ["true"], "image": "i"}, "b": {"command": ["true"], "image": "i", "replicas": 2}}
    yield from (short, short, short, {**short, "spec": {"roles": roles, "suspend": True}})


def bad() -> Iterator[Manifest]:
    """Objects that the API server refuses for one reason, which another mutation may remove."""
    alone = ("SchedulingPolicy", "Reservation")  # one is enough, and many of them slow every plan
    yield from (each.manifest for each in malformed() if each.manifest["kind"] not in alone)


def mutate(manifest: Manifest, chance: random.Random) -> None:
    """Changes, removes or adds one field."""
    spots = [*_spots(manifest.get("spec")), *([(manifest, "spec")] if chance.random() < 0.02 else [])]
    what = chance.random()
    if what < 0.1 or not spots:
        about = manifest["metadata"]
        field = chance.choice(("labels", "annotations"))
        about[field] = {
            **(about.get(field) or {}),
            chance.choice(NOTES): chance.choice(("", "a", "-1", "{}", "9" * 30)),
        }
        return
    holder, key = chance.choice(spots)
    if what < 0.5:
        holder[key] = copy.deepcopy(chance.choice(JUNK))
    elif what < 0.6:
        del holder[key]
    elif what < 0.7:
        other, name = chance.choice(spots)
        holder[key] = copy.deepcopy(other[name])
    elif isinstance(holder, dict):
        holder[chance.choice(WORDS)] = copy.deepcopy(chance.choice(JUNK))
    else:
        holder.append(copy.deepcopy(holder[key]))


def _spots(value: Any) -> Iterator[Spot]:
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(pairs):
        yield value, key
        yield from _spots(each)


def _named(metadata: Manifest, name: str) -> Manifest:
    """Names an object, unless its name is invalid on purpose."""
    right = metadata["name"] == "any" or metadata["name"].isalpha()
    return {**metadata, "name": name if right else f"{metadata['name']}-{name}"}
