"""A job's state is written into its object, so that whoever takes over knows it.

A write is conditional: it carries the resource version that is known, and if the object is another one by now it is
looked at again. Somebody else's field does no harm; a state that is not the one written last means that another
controller has taken over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.status import JobState
from windlass.worlds.kubernetes import stored
from windlass.worlds.kubernetes.client.connection import Connection
from windlass.worlds.kubernetes.client.refusals import ApiError
from windlass.worlds.kubernetes.gangs import Gang
from windlass.worlds.kubernetes.homes import version_of
from windlass.worlds.kubernetes.stored import FIELD, Stored


class DeposedError(Exception):
    """Somebody else has written the state of a job: this controller must not go on, nor try again."""


async def write(connection: Connection, gang: Gang, state: JobState, said: Mapping[str, Any]) -> None:
    """Write it, with what else the status says. Raises DeposedError, ApiError, Unreachable."""
    if gang.gone or (gang.stored is not None and gang.stored.status == state.status):
        return
    revision = gang.stored.revision if gang.stored else 0
    new = Stored(state.number, revision + 1, state.status)
    while True:
        body = {
            "metadata": {"resourceVersion": str(gang.version), "uid": gang.home.uid},
            "status": {**said, FIELD: stored.written(new)},
        }
        try:
            answer = await connection.patch(
                gang.home.resource, gang.home.namespace, gang.home.name, body, subresource="status"
            )
        except ApiError as error:
            if error.is_missing:
                gang.gone = True
                return
            if not error.is_conflict:
                raise
            if await _look_again(connection, gang, revision, new):
                break
            continue
        gang.version = version_of(answer)
        break
    gang.stored = new


async def _look_again(connection: Connection, gang: Gang, revision: int, new: Stored) -> bool:
    """Learn what the object is by now. True: what was to be written is there, by an attempt whose answer was lost."""
    try:
        found = await connection.get(gang.home.resource, gang.home.namespace, gang.home.name)
    except ApiError as error:
        if not error.is_missing:
            raise
        gang.gone = True
        return True
    if found["metadata"]["uid"] != gang.home.uid:
        gang.gone = True
        return True
    there = stored.read((found.get("status") or {}).get(FIELD))
    gang.version = version_of(found)
    if there == new:
        return True
    if (there.revision if there else 0) != revision:
        raise DeposedError(f"the state of {gang.id} was written by another controller; this one stops")
    return False
