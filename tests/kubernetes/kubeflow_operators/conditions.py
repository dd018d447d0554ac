"""Conditions of jobs in the recordings, with the intended differences that are about them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .differences import INTENDED
from .kinds import KINDS
from .recordings import RECORDED

_ABOUT = re.compile(r"job/conditions/\(?([A-Z][A-Za-z]+)")
_ALL = "job/conditions/[^/]+/"


def conditions() -> Iterator[tuple[str, str, str]]:
    """Yields each type of condition: verdict, and the reason of a difference."""
    for name in recorded_types():
        rows = [each for each in INTENDED if name in _ABOUT.findall(each.path) or _ALL in each.path]
        yield f"`{name}`", "equal", "; ".join(f"{each.what}: {each.verdict}" for each in rows)
    for each in INTENDED:
        if each.theirs == "nothing" and (found := _ABOUT.search(each.path)) and found[1] not in recorded_types():
            yield f"`{found[1]}`", each.verdict, each.reason


def recorded_types() -> list[str]:
    """Returns the types of all conditions that Kubeflow's operators have set, in the order of their first time."""
    seen = (
        each["type"]
        for kind in KINDS
        for observations in RECORDED[kind.label].values()
        for observation in observations
        for each in (observation.get("job") or {}).get("conditions", ())
    )
    return list(dict.fromkeys(seen))
