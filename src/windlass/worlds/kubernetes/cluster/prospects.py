"""Whether a job could ever run on the nodes that there are, were nobody else on them: for warnings, in words.

A job that could not is no mistake here, as nodes come and go; so it waits, and is told what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.core.admission import refusal
from windlass.core.job import Job
from windlass.core.ledger import Ledger
from windlass.core.queue import Queue
from windlass.core.snapshot import Snapshot
from windlass.worlds.kubernetes.client.objects import Node as NodeObject
from windlass.worlds.kubernetes.cluster.fitting import singles
from windlass.worlds.kubernetes.cluster.levels import topology
from windlass.worlds.kubernetes.cluster.nodes import View, node


@dataclass(frozen=True, slots=True)
class Prospects:
    """The cluster with nothing on it, as of one moment."""

    nodes: tuple[NodeObject, ...]
    queues: tuple[Queue, ...]
    view: View
    empty: Snapshot

    def never(self, job: Job) -> str:
        """Why a fitted job can never run here, with what could; "" if it can."""
        missing = singles(job) - self.view.singles
        here = (
            prospects(self.nodes, self.queues, replace(self.view, singles=self.view.singles | missing))
            if missing
            else self
        )
        no = refusal(here.empty, job)
        return "" if no is None else f"could never run on the nodes that there are: {no.message}"


def prospects(nodes: Iterable[NodeObject], queues: Iterable[Queue], view: View) -> Prospects:
    """Worked out once for a cluster: it looks at every node."""
    seen, declared = tuple(nodes), tuple(queues)
    empty = Ledger([node(each, {}, view) for each in seen], declared, topology(view.levels))
    return Prospects(seen, declared, view, empty.snapshot())
