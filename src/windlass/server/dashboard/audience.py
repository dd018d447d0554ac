"""The part of the state that a visitor of the dashboard may read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Audience:
    """Namespaces and resources of a cluster. None: all of them, as on the user's own machine."""

    namespaces: frozenset[str] | None = None
    """Namespaces whose jobs are shown."""
    resources: frozenset[str] | None = None
    """Resources of the whole cluster that are shown: nodes, queues, shares, reservations, status."""

    def sees(self, job_id: str) -> bool:
        """Whether a job is shown: its id begins with its namespace."""
        return self.namespaces is None or job_id.partition("/")[0] in self.namespaces

    def may_read(self, resource: str) -> bool:
        """Whether a resource of the whole cluster is shown."""
        return self.resources is None or resource in self.resources

    @property
    def key(self) -> str:
        """The same text for audiences that may read the same."""
        parts = ("*" if part is None else " ".join(sorted(part)) for part in (self.namespaces, self.resources))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


EVERYTHING = Audience()
