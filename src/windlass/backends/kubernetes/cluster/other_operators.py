"""Finds other operators and schedulers in a cluster: those that serve one of our kinds, and compatible ones.

Every tenant may run a deployment of any image. So the image only selects deployments; the API server is then asked
whether the deployment's service account may do the operator's work in every namespace, which no tenant can grant.
Operators that this does not find are named by the administrator (`BackendSettings.left_kinds`).

Sources: the manifests of kubeflow/training-operator v1.9, mpi-operator v0.8, trainer v2.3, Kueue, Volcano, KAI,
scheduler-plugins, YuniKorn.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import DEPLOYMENTS
from windlass.backends.kubernetes.client.reviews import AccessRight, account_user, has_right
from windlass.jobs.kubernetes.kinds.registry import KINDS
from windlass.jobs.kubernetes.train_runtimes import TRAIN_JOB

_MOST_PER_NAMESPACE = 5
DEADLINE_S = 10.0
"""Bounds of one search: a tenant may have any number of deployments, and a replica waits for the first search."""
_TRAINING = ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob")


_BINDING = AccessRight("create", "pods/binding")
_STATUS_OF = {
    kind.name: AccessRight("update", f"{kind.plural}/status", group=kind.api_version.partition("/")[0])
    for kind in KINDS
}
"""The right in all namespaces that the operator of a kind needs for its work."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A known operator: a part of its image's name, and what it does; `right` for one that serves no kind of ours."""

    name: str
    image: str
    serves: tuple[str, ...] = ()
    right: AccessRight = _BINDING

    @property
    def rights(self) -> dict[str, AccessRight]:
        """The permission that shows that it is at work, by kind; "" for no kind of ours."""
        return {kind: _STATUS_OF[kind] for kind in self.serves} or {"": self.right}


_KNOWN = (
    _Known("the training operator", "/training-operator", _TRAINING),
    _Known("the MPI operator", "mpi-operator", ("MPIJob",)),
    _Known("the notebook controller", "/notebook-controller", ("Notebook",)),
    _Known("the trainer v2", "trainer-controller-manager", (TRAIN_JOB,)),
    _Known("Kueue", "/kueue", right=AccessRight("update", "workloads/status", group="kueue.x-k8s.io")),
    _Known("Volcano", "vc-controller-manager", right=AccessRight("update", "jobs/status", group="batch.volcano.sh")),
    _Known("Volcano's scheduler", "vc-scheduler"),
    _Known("KAI", "kai-scheduler"),
    _Known("scheduler-plugins", "scheduler-plugins"),
    _Known("YuniKorn", "yunikorn"),
)


RIVAL_KINDS = frozenset(kind for known in _KNOWN for kind in known.serves)
"""Kinds of ours that a known operator serves."""


@dataclass(frozen=True, slots=True)
class OtherOperator:
    """An operator that is present."""

    name: str
    place: str
    """Namespace and name of its deployment."""
    serves: tuple[str, ...]
    """Kinds of ours for which it would create pods, too."""

    def __str__(self) -> str:
        """Describes it for people: "the MPI operator (kubeflow/mpi-operator)"."""
        return f"{self.name} ({self.place})"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running deployment with the image of a known operator, and the service account of its pods."""

    known: _Known
    namespace: str
    name: str
    account: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """Result of one search."""

    operators: Sequence[OtherOperator]
    unknown: frozenset[str] = frozenset()
    """Kinds of ours that a candidate may serve whose rights were not reviewed in time."""


class RivalSearch:
    """Searches for other operators in a cluster. A search that did not end leaves its answers to the next one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._answers: dict[tuple[str, str, AccessRight], bool] = {}
        """By namespace and name of a service account, and right."""

    async def run(self) -> Discovery:
        """Returns the operators that are found in `DEADLINE_S`. Raises ApiError, Unreachable."""
        left = deque(_most_of_each_namespace(candidates_among(await self._connection.list(DEPLOYMENTS))))
        found: list[OtherOperator] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                while left:
                    found.extend(await self._confirmed(left[0]))
                    left.popleft()
        if not left:
            self._answers.clear()
        return Discovery(found, frozenset(kind for each in left for kind in each.known.serves))

    async def _confirmed(self, candidate: Candidate) -> list[OtherOperator]:
        """Returns the operator, with the kinds whose status it may write; none if it may not do such work."""
        rights = candidate.known.rights
        answers = await asyncio.gather(*(self._may(candidate, right) for right in rights.values()))
        allowed = [kind for kind, answer in zip(rights, answers, strict=True) if answer]
        if not allowed:
            return []
        place = f"{candidate.namespace}/{candidate.name}"
        return [OtherOperator(candidate.known.name, place, tuple(filter(None, allowed)))]

    async def _may(self, candidate: Candidate, right: AccessRight) -> bool:
        """Tells whether a candidate's account has a right in all namespaces, which is asked once in a search."""
        key = candidate.namespace, candidate.account, right
        if key not in self._answers:
            account = account_user(candidate.namespace, candidate.account)
            self._answers[key] = await has_right(self._connection, account, right)
        return self._answers[key]


def _most_of_each_namespace(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Returns each operator and account of a namespace once, and of a namespace a few at most; all first ones first."""
    found: defaultdict[str, dict[tuple[str, str], Candidate]] = defaultdict(dict)
    for each in candidates:
        found[each.namespace].setdefault((each.known.image, each.account), each)
    columns = zip_longest(*(list(some.values())[:_MOST_PER_NAMESPACE] for some in found.values()))
    return [each for column in columns for each in column if each is not None]


def candidates_among(deployments: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """Returns deployments of at least one replica that may be operators.

    A deployment that cannot be read decides nothing: the API server accepts none, so no operator runs from it.
    """
    found: list[Candidate] = []
    for each in deployments:
        with suppress(AttributeError, KeyError, TypeError):
            found += _candidates(each)
    return found


def _candidates(deployment: Mapping[str, Any]) -> Iterator[Candidate]:
    if not deployment["spec"].get("replicas", 1):
        return
    about, pod = deployment["metadata"], deployment["spec"]["template"]["spec"]
    images = [f"/{each.get('image', '')}" for each in pod["containers"]]
    for known in _KNOWN:
        if any(known.image in image for image in images):
            yield Candidate(known, about["namespace"], about["name"], pod.get("serviceAccountName") or "default")
