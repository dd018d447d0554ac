"""Cordons nodes that diagnoses prove to be bad, where the installation permits it, and never more than a few.

A diagnosis reads what users' programs print, and a program can print any line. A verdict therefore counts against a
node only if the node's own conditions confirm it, or if jobs of two namespaces fail there by causes in the node. An
administrator uncordons a node: `kubectl uncordon`. A verdict that was acted on does not cordon the node again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import NODES
from windlass.backends.port import Changes
from windlass.controller.observer import Observer
from windlass.core.lifecycle.events import Diagnosed
from windlass.core.model.diagnosed_cause import DiagnosedCause, node_to_avoid, proven_bad_node
from windlass.core.model.status import JobState
from windlass.jobs.kubernetes.labels import OURS

LABEL = f"{OURS}cordoned-by"
_DIAGNOSIS = "diagnosis"
REASON = f"{OURS}cordon-reason"
"""Annotation with the job, the attempt and the rule."""
HANDLED = f"{OURS}cordon-handled"
"""Annotation with the newest verdicts that cordoned the node. Uncordoning does not remove it."""
_MAX_HANDLED = 16
_MAX_SUSPECTS = 1_000
_SUSPICION_MS = 24 * 3_600_000
"""Longest time between failures of two namespaces that together prove a node bad."""


class NodeCordon(Observer):
    """Cordons the node of each verdict that proves it bad, while at most `limit` nodes are cordoned by this."""

    def __init__(self, connection: Connection, limit: int, say: Callable[[str], None]) -> None:
        self._connection, self._limit, self._say = connection, limit, say
        self._suspects: dict[str, dict[str, int]] = {}
        """By node: namespaces whose jobs failed by a cause in it that only their output shows, and when."""
        self._one_at_a_time = asyncio.Lock()
        self.work: set[asyncio.Task[None]] = set()
        """Tasks under way."""

    def on_commit_end(self, changes: Changes) -> None:
        """Starts to cordon the nodes of the verdicts of this commit; older verdicts were acted on before."""
        diagnosed = {each.job_id for each in changes.transitions if each.event == Diagnosed.__name__}
        for state in changes.states:
            cause = state.status.diagnosis
            if cause is None or state.id not in diagnosed:
                continue
            node = proven_bad_node(cause) or self._node_of_two_namespaces(state, cause)
            if node:
                task = asyncio.get_running_loop().create_task(self._cordon(node, state, cause))
                self.work.add(task)
                task.add_done_callback(self.work.discard)

    async def close(self) -> None:
        """Cancels what is under way."""
        for task in self.work:
            task.cancel()
        await asyncio.gather(*self.work, return_exceptions=True)

    def _node_of_two_namespaces(self, state: JobState, cause: DiagnosedCause) -> str:
        """Notes an unconfirmed verdict. Returns its node once two namespaces have such verdicts within a day."""
        node, failure = node_to_avoid(cause), state.status.last_failure
        if not node or failure is None:
            return ""
        known = self._suspects.pop(node, {})
        recent = {each: at for each, at in known.items() if abs(failure.at - at) <= _SUSPICION_MS}
        recent[state.id.partition("/")[0]] = failure.at
        if len(recent) > 1:
            return node
        self._suspects[node] = recent
        while len(self._suspects) > _MAX_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]
        return ""

    async def _cordon(self, node: str, state: JobState, cause: DiagnosedCause) -> None:
        why = f"{state.id} attempt {cause.generation}: {cause.rule}"
        async with self._one_at_a_time:
            try:
                obstacle = await self._try_cordon(node, f"{state.id}/{state.number}/{cause.generation}", why)
            except BackendError as error:
                obstacle = f"node {node} cannot be cordoned for {why}: {error}"
        self._say(obstacle or f"node {node} is cordoned for {why}: {cause.text}")

    async def _try_cordon(self, node: str, verdict: str, why: str) -> str:
        """Cordons a node. Returns why it does not; "" if it does. Raises BackendError."""
        found = await self._connection.list(NODES, fields=f"metadata.name={node}")
        if not found:
            return f"node {node} is gone: it is not cordoned for {why}"
        handled = found[0]["metadata"].get("annotations", {}).get(HANDLED, "").split()
        if found[0]["spec"].get("unschedulable"):
            return f"node {node} is cordoned already; another reason: {why}"
        if verdict in handled:
            return f"node {node} stays uncordoned: it was cordoned for {why} before"
        cordoned = await self._connection.list(NODES, selector=f"{LABEL}={_DIAGNOSIS}")
        closed = sum(bool(each["spec"].get("unschedulable")) for each in cordoned)
        if closed >= self._limit:
            return f"node {node} is not cordoned for {why}: {closed} are (--cordon-bad-nodes)"
        await self._connection.patch(NODES, None, node, _patch(why, [*handled, verdict][-_MAX_HANDLED:]))
        return ""


def _patch(why: str, handled: Sequence[str]) -> dict[str, object]:
    annotations = {REASON: why, HANDLED: " ".join(handled)}
    about = {"labels": {LABEL: _DIAGNOSIS}, "annotations": annotations}
    return {"metadata": about, "spec": {"unschedulable": True}}
