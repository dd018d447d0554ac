"""What lies in a place: every checkpoint with what its manifest tells, and what is unfinished. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windlass.train.checkpoint.store.errors import ManifestError
from windlass.train.checkpoint.store.layout import LATEST, MANIFEST, folder_of, step_of, steps_in, torn_in
from windlass.train.checkpoint.store.manifest import Manifest
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.retention import Retention, to_prune
from windlass.train.checkpoint.store.verifying import Trouble, manifest_of, manifest_trouble


class State(StrEnum):
    """Of a folder, as far as can be told without reading its files."""

    COMPLETE = "complete"
    DAMAGED = "damaged"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Seen:
    """One folder of a place."""

    folder: str
    state: State
    step: int | None
    manifest: Manifest | None = None
    trouble: tuple[Trouble, ...] = ()


def candidates(place: Place) -> list[int]:
    """Steps that may have a checkpoint, newest first, what only `LATEST` knows of included."""
    return steps_in({*place.names(), (place.read(LATEST) or b"").decode(errors="replace").strip()})


def newest_whole(place: Place, most: float = math.inf) -> tuple[int | None, Mapping[str, Any]]:
    """The newest checkpoint of a step that is not after `most`, by its manifest, and the facts in that."""
    for step in candidates(place):
        manifest = look(place, step).manifest if step <= most else None
        if manifest is not None:
            return step, manifest.facts
    return None, {}


def survey(place: Place) -> list[Seen]:
    """Everything in a place, newest first; what was never finished comes last."""
    names = place.names()
    unfinished = [Seen(name, State.UNFINISHED, None) for name in torn_in(names)]
    seen = [look(place, step) for step in candidates(place)]
    return [*(each for each in seen if each.folder in names or each.manifest), *unfinished]


def look(place: Place, step: int) -> Seen:
    """The checkpoint of one step: its manifest, and whether its files are there with their sizes."""
    folder = folder_of(step)
    try:
        manifest = manifest_of(place, folder)
    except ManifestError as error:
        return Seen(folder, State.DAMAGED, step, None, (manifest_trouble(error),))
    if manifest is None:
        return Seen(folder, State.UNFINISHED, step)
    trouble = misplaced(manifest, step) or tuple(_by_size(place.sizes(folder), manifest))
    return Seen(folder, State.DAMAGED if trouble else State.COMPLETE, step, manifest, trouble)


def misplaced(manifest: Manifest, step: int) -> tuple[Trouble, ...]:
    """A manifest in another step's folder."""
    return () if manifest.step == step else (Trouble(MANIFEST, f"is of step {manifest.step:,}"),)


def torn(place: Place) -> list[str]:
    """Folders in which a save died: no checkpoints, and nobody goes on with them."""
    names = place.names()
    empty = [name for name in names if step_of(name) is not None and place.read(f"{name}/{MANIFEST}") is None]
    return [*torn_in(names), *empty]


def _by_size(sizes: dict[str, int], manifest: Manifest) -> list[Trouble]:
    compared = ((name, sizes.get(name), fact.size) for name, fact in manifest.files.items())
    return [
        Trouble(name, "is missing" if found is None else f"has {found:,} bytes, and {wanted:,} were written")
        for name, found, wanted in compared
        if found != wanted
    ]


def prunable(place: Place, retention: Retention) -> list[int]:
    """Steps that would go, oldest first. A damaged one does not count as kept: it goes when a newer one is complete."""
    seen = survey(place)
    complete = [each.step for each in seen if each.step is not None and each.state is State.COMPLETE]
    if not complete:
        return []
    damaged = [each.step for each in seen if each.step is not None and each.state is State.DAMAGED]
    return sorted([*to_prune(complete, retention), *(step for step in damaged if step < max(complete))])
