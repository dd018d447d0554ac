"""Decides which queue and priority a job gets of those that its owner asks for.

The owner writes both, so they are requests. A queue is open to the namespaces that its `namespaceSelector` selects;
without one to those whose own label names it, and the default queue to all. A number as priority is bounded by the
queue; a PriorityClass is the administrator's and is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.queue import Queue
from windlass.core.nodes.affinity import format_terms, matches_terms
from windlass.core.queues.limits import priority_fault
from windlass.jobs.kubernetes.labels import QUEUE

MAX_PRIORITY = 0
"""Highest priority by a number in a queue that declares none."""
_HIGHEST_OF_USERS = 1_000_000_000
"""Highest value of a PriorityClass that the API server lets anyone create; only Kubernetes' own are above it."""
_BY_CLASS = "or name a PriorityClass (pod: {spec: {priorityClassName: …}})"


@dataclass(frozen=True, slots=True)
class NamespaceQueues:
    """The queues of a cluster for jobs of one namespace.

    `labels`: the namespace's, which its users cannot change; None while they are not known.
    """

    namespace: str
    labels: Mapping[str, str] | None
    queues: Mapping[str, Queue]

    @property
    def own(self) -> str:
        """The queue of jobs that name none."""
        return (self.labels or {}).get(QUEUE) or DEFAULT_QUEUE

    def allowed_queue(self, asked: str) -> tuple[str, str]:
        """Returns the queue that a job gets, and why it is not the one that it asks for ("" if it is).

        A queue that does not exist is allowed: nothing starts there.
        """
        wanted = asked or self.own
        if not (denial := self._denial(wanted)):
            return wanted, ""
        fallback = next((name for name in (self.own, DEFAULT_QUEUE) if not self._denial(name)), "")
        return fallback or f"{wanted} (closed)", denial

    def allowed_priority(self, queue: str, asked: int) -> tuple[int, str]:
        """Returns the priority that a job gets for a number, and why it is not that number ("" if it is)."""
        declared = self.queues[queue].max_priority if queue in self.queues else None
        most = MAX_PRIORITY if declared is None else declared
        fault = priority_fault(queue, most, asked)
        return min(asked, most), f"{fault}, {_BY_CLASS}" if fault else ""

    def _denial(self, name: str) -> str:
        queue = self.queues.get(name)
        if queue is None or is_open_to(queue, self.labels):
            return ""
        cause = f"the queue {name} is closed to the namespace {self.namespace}: it is open to {_selected(queue)}"
        return cause if self.labels is not None else f"{cause}, and the labels of {self.namespace} are not known yet"


def is_reserved_class(priority_class: str, namespace: str) -> bool:
    """Tells whether a job may not have a PriorityClass because every cluster has it for Kubernetes' own pods.

    An administrator cannot delete such a class, and a job that names it would go before all others.
    """
    return priority_class.startswith("system-") and namespace != "kube-system"


def is_reserved_value(priority: int, namespace: str) -> bool:
    """Tells whether the priority of a pod, as the API server resolved it, is that of a reserved class.

    The API server admits these classes in every namespace without a ResourceQuota of them.
    """
    return priority > _HIGHEST_OF_USERS and namespace != "kube-system"


def is_open_to(queue: Queue, labels: Mapping[str, str] | None) -> bool:
    """Tells whether jobs of a namespace with these labels may be in a queue. None: no selector with terms selects it.

    Without labels, the operators NotIn and DoesNotExist would select each namespace.
    """
    if queue.namespace_selector is None:
        return queue.name in (DEFAULT_QUEUE, (labels or {}).get(QUEUE))
    if not queue.namespace_selector:
        return True
    return labels is not None and matches_terms(labels, [queue.namespace_selector])


def _selected(queue: Queue) -> str:
    if queue.namespace_selector is None:
        return f"namespaces with the label {QUEUE}={queue.name}, as it has no namespaceSelector"
    return f"namespaces with {format_terms([queue.namespace_selector])}"
