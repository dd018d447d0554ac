"""Lists the objects that `windlass doctor cluster` judges, with the caller's own permissions. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource
from windlass.diagnose.cluster.survey import KINDS, ClusterSurvey, SurveyKind

Objects = Sequence[dict[str, Any]]


@dataclass(slots=True)
class _Answers:
    """Answers so far. `narrowed`: at least one kind could be listed in the caller's namespace alone."""

    objects: dict[str, Objects] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    narrowed: bool = False


async def survey_cluster(
    connection: Connection,
    namespace: str,
    now: int,
    *,
    whole: bool = True,
    show: Callable[[float, int, int, str], object] | None = None,
) -> ClusterSurvey:
    """Returns the objects of all namespaces, or of `namespace` alone, where the caller may list no more.

    With `whole` False only `namespace` is read. `show` gets the progress as a `ProgressBar` does. Raises Unreachable,
    and ApiError other than 403 and 404.
    """
    answers, waiting = _Answers(), [kind.full_name for kind in KINDS]

    async def list_kind(kind: SurveyKind) -> None:
        await _list_kind(connection, kind, namespace, answers, whole=whole)
        waiting.remove(kind.full_name)
        if show and waiting:
            done = len(KINDS) - len(waiting)
            show(done / len(KINDS), done, len(KINDS), f"{done} of {len(KINDS)} kinds, next {waiting[0]}")

    await asyncio.gather(*map(list_kind, KINDS))
    refused = {kind: answers.refused[kind] for kind in sorted(answers.refused)}
    return ClusterSurvey(now, answers.objects, refused, namespace if answers.narrowed or not whole else "")


async def _list_kind(
    connection: Connection, kind: SurveyKind, namespace: str, answers: _Answers, *, whole: bool
) -> None:
    """Lists one kind in the cluster, else in the namespace; a kind that is not served stays without an answer."""
    scopes: tuple[str | None, ...] = (None,) if not kind.namespaced else (None, namespace) if whole else (namespace,)
    for scope in scopes:
        try:
            found = await _list_served(connection, kind, scope)
        except ApiError as error:
            if not error.is_forbidden:
                raise
            answers.refused[kind.full_name] = str(error)
            continue
        answers.refused.pop(kind.full_name, None)
        answers.narrowed |= scope is not None
        if found is not None:
            answers.objects[kind.full_name] = found
        return


async def _list_served(connection: Connection, kind: SurveyKind, namespace: str | None) -> Objects | None:
    """Returns the objects in the first version that is served; None if none is."""
    for version in kind.versions:
        resource = Resource(kind.group, version, kind.name, kind.kind, kind.namespaced)
        try:
            return await connection.list(resource, namespace)
        except ApiError as error:
            if not error.is_missing:
                raise
    return None
