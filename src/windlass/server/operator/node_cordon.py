"""Cordons nodes that diagnoses prove to be bad, where the installation permits it, and never more than a few.

A diagnosis reads what users' programs print, so a program could have its own nodes cordoned. The limit on the number of
nodes keeps such a mistake, or malice, from closing the cluster. An administrator uncordons a node: `kubectl uncordon`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import NODES
from windlass.backends.port import Changes
from windlass.controller.observer import Observer
from windlass.core.model.diagnosed_cause import DiagnosedCause, proven_bad_node
from windlass.core.model.status import JobState
from windlass.jobs.kubernetes.labels import OURS

LABEL = f"{OURS}cordoned-by"
_DIAGNOSIS = "diagnosis"
REASON = f"{OURS}cordon-reason"
"""Annotation with the job, the attempt and the rule."""
_MAX_KNOWN = 1_000


class NodeCordon(Observer):
    """Cordons the node of each verdict that proves it bad, while at most `limit` nodes are cordoned by this."""

    def __init__(self, connection: Connection, limit: int, say: Callable[[str], None]) -> None:
        self._connection, self._limit, self._say = connection, limit, say
        self._known: dict[tuple[str, int], None] = {}
        """Verdicts that were acted on: a state is committed more than once."""
        self._one_at_a_time = asyncio.Lock()
        self.work: set[asyncio.Task[None]] = set()
        """Tasks under way."""

    def on_commit_end(self, changes: Changes) -> None:
        """Starts to cordon the nodes of new verdicts."""
        for state in changes.states:
            cause = state.status.diagnosis
            node = "" if cause is None else proven_bad_node(cause)
            if cause is None or not node or (state.id, cause.generation) in self._known:
                continue
            self._known[state.id, cause.generation] = None
            while len(self._known) > _MAX_KNOWN:
                del self._known[next(iter(self._known))]
            task = asyncio.get_running_loop().create_task(self._cordon(node, state, cause))
            self.work.add(task)
            task.add_done_callback(self.work.discard)

    async def close(self) -> None:
        """Cancels what is under way."""
        for task in self.work:
            task.cancel()
        await asyncio.gather(*self.work, return_exceptions=True)

    async def _cordon(self, node: str, state: JobState, cause: DiagnosedCause) -> None:
        why = f"{state.id} attempt {cause.generation}: {cause.rule}"
        async with self._one_at_a_time:
            try:
                cordoned = await self._connection.list(NODES, selector=f"{LABEL}={_DIAGNOSIS}")
                closed = {each["metadata"]["name"] for each in cordoned if each["spec"].get("unschedulable")}
                if node in closed:
                    return
                if len(closed) >= self._limit:
                    self._say(f"node {node} is not cordoned for {why}: {len(closed)} are (--cordon-bad-nodes)")
                    return
                await self._connection.patch(NODES, None, node, _patch(why))
            except BackendError as error:
                self._say(f"node {node} cannot be cordoned for {why}: {error}")
                return
        self._say(f"node {node} is cordoned for {why}: {cause.text}")


def _patch(why: str) -> dict[str, object]:
    about = {"labels": {LABEL: _DIAGNOSIS}, "annotations": {REASON: why}}
    return {"metadata": about, "spec": {"unschedulable": True}}
