"""The newest checkpoint that is whole: all ranks read it before any of them believes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.train.checkpoint.store.errors import DamagedError, ManifestError
from windlass.train.checkpoint.store.layout import MANIFEST, folder_of, share_of
from windlass.train.checkpoint.store.manifest import Manifest, from_json
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.survey import candidates, misplaced
from windlass.train.checkpoint.store.verifying import Trouble, manifest_trouble, verified
from windlass.train.checkpoint.together import Ranks, by_first, together

Tell = Callable[[str], None]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint whose every byte was read and is as it was written."""

    place: Place
    folder: str
    manifest: Manifest


def newest_good(place: Place, ranks: Ranks, *, tell: Tell = print, before: int | None = None) -> Found | None:
    """The newest one that is whole, of those of steps up to `before`; None where no checkpoint was ever made.

    A collective. Each rank reads its share of the files; rank 0 tells why one was passed over.
    Raises DamagedError if there are checkpoints but none is whole, PlaceError if the place cannot be read.
    """
    steps = by_first(ranks, lambda: [s for s in candidates(place) if before is None or s <= before])
    passed_over = []
    for step in steps:
        looked = _look(place, ranks, step)
        if isinstance(looked, Found):
            return looked
        if looked:
            passed_over.append(f"{folder_of(step)}: {_several(looked)}")
            if ranks.first:
                tell(f"{place.text}: passing over {passed_over[-1]}")
    if passed_over:
        raise DamagedError(
            f"{place.text}: there is no checkpoint that is whole\n"
            + "\n".join(passed_over)
            + "\nto start from nothing, "
            "name another place, or remove what is in this one"
        )
    return None


def _look(place: Place, ranks: Ranks, step: int) -> Found | list[Trouble]:
    """The checkpoint, or what is wrong with it; nothing is wrong with a folder that never became one."""
    folder = folder_of(step)
    data = by_first(ranks, lambda: place.read(f"{folder}/{MANIFEST}"))
    if data is None:
        return []
    try:
        manifest = from_json(data)  # every rank: it is the same everywhere, and so is what it raises
    except ManifestError as error:
        return [manifest_trouble(error)]
    if elsewhere := misplaced(manifest, step):
        return list(elsewhere)
    sizes = {name: fact.size for name, fact in manifest.files.items()}
    shares = together(ranks, lambda: verified(place, folder, manifest, share_of(sizes, ranks.rank, ranks.size)))
    trouble = [each for share in shares for each in share]
    return trouble or Found(place, folder, manifest)


def _several(trouble: list[Trouble]) -> str:
    more = f", and {len(trouble) - _SHOWN} more files" if len(trouble) > _SHOWN else ""
    return "; ".join(map(str, trouble[:_SHOWN])) + more
