"""Which checkpoints of a place nobody will want, by hand."""

from __future__ import annotations

from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.retention import Retention, to_prune
from windlass.train.checkpoint.store.survey import State, survey


def prunable(place: Place, retention: Retention) -> list[int]:
    """Steps that would go, oldest first. A damaged one does not count as kept: it goes when a newer one is complete."""
    seen = survey(place)
    complete = [each.step for each in seen if each.step is not None and each.state is State.COMPLETE]
    if not complete:
        return []
    damaged = [each.step for each in seen if each.step is not None and each.state is State.DAMAGED]
    return sorted([*to_prune(complete, retention), *(step for step in damaged if step < max(complete))])
