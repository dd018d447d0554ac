"""Writes the state of a job into its object, from which the next leader reads it.

A write is conditional on the known resource version; after a conflict the object is read again. A field of another
writer does no harm; a state that is not the one written last means that another controller has taken over.

The controller waits for a write, and an object that cannot be written must not hold up others. So a write has
`WRITE_TIMEOUT_S` in all, and status 500 is not retried: it is the answer for an object whose webhook is broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError, Outcome, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import FIELD, Stored, UnreadableError
from windlass.core.model.status import JobState, Status

WRITE_TIMEOUT_S = 3.0


class DeposedError(Exception):
    """Another controller has written the state of a job: this one must stop, without another attempt."""


async def write_state(connection: Connection, gang: Gang, state: JobState, fields: Mapping[str, Any]) -> None:
    """Writes a state with the rest of the status. Raises DeposedError, ApiError, Unreachable."""
    async with gang.version.write_lock:
        if not gang.version.gone and (gang.stored is None or gang.stored.status != state.status):
            await _write(connection, gang, state, fields)


async def write_status(connection: Connection, gang: Gang, fields: Mapping[str, Any]) -> None:
    """Writes only the rest of the status. Raises ApiError, Unreachable."""
    async with gang.version.write_lock:
        reference, about = gang.reference, {"resourceVersion": str(gang.version.known), "uid": gang.reference.uid}
        body = {"metadata": about, "status": _changes(gang, fields)}
        if gang.version.gone:
            return
        deadline = _deadline()
        try:
            answer = await _patch(connection, gang, body, deadline)
        except ApiError as error:
            if error.is_missing:
                gang.version.gone = True
                return
            if not error.is_conflict:
                raise
            answer = await connection.get(
                reference.resource, reference.namespace, reference.name, within=_seconds_until(deadline)
            )
        gang.learn(answer)


async def delete_object(connection: Connection, gang: Gang, on_trouble: Callable[[str], None]) -> bool:
    """Deletes the object and all that it owns; returns False if that is not allowed. Raises ApiError, Unreachable."""
    reference = gang.reference
    try:
        await connection.delete(
            reference.resource,
            reference.namespace,
            reference.name,
            uid=reference.uid,
            propagation="Background",
            within=WRITE_TIMEOUT_S,
            retry_500=False,
        )
    except ApiError as error:
        if error.outcome is not Outcome.REFUSED or error.is_unauthorized:
            raise
        if not (error.is_missing or error.is_conflict):
            on_trouble(f"{gang.id} cannot be deleted after its time to live: {error}")
            return False
    gang.version.gone = True
    return True


def _changes(gang: Gang, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return merge_patch(gang.parsed.manifest.get("status") or {}, fields)


def _deadline() -> float:
    """End of a write that begins now, in seconds of the event loop's clock."""
    return asyncio.get_running_loop().time() + WRITE_TIMEOUT_S


def _seconds_until(deadline: float) -> float:
    return max(0.001, deadline - asyncio.get_running_loop().time())


async def _patch(connection: Connection, gang: Gang, body: Mapping[str, Any], deadline: float) -> dict[str, Any]:
    reference, within = gang.reference, _seconds_until(deadline)
    return await connection.patch(
        reference.resource,
        reference.namespace,
        reference.name,
        body,
        subresource="status",
        within=within,
        retry_500=False,
    )


async def _write(connection: Connection, gang: Gang, state: JobState, fields: Mapping[str, Any]) -> None:
    deadline = _deadline()
    while True:
        before = gang.stored or Stored(state.number, 0, Status())
        new = replace(before.followed_by(state.status), number=state.number)
        body = {
            "metadata": {"resourceVersion": str(gang.version.known), "uid": gang.reference.uid},
            "status": {**_changes(gang, fields), FIELD: stored_state.to_patch(new)},
        }
        try:
            answer = await _patch(connection, gang, body, deadline)
        except ApiError as error:
            if error.is_missing:
                gang.version.gone = True
                return
            if error.is_invalid and fields:
                fields = {}  # the rest of the status is written with the next state
                continue
            if not error.is_conflict:
                gang.version.unconfirmed_writes.append(new)
                raise
            if await _look_again(connection, gang, new, deadline):
                return
            continue
        except Unreachable:
            gang.version.unconfirmed_writes.append(new)
            raise
        gang.version.unconfirmed_writes.clear()
        gang.stored, gang.number = new, new.number
        gang.learn(answer)
        return


async def _look_again(connection: Connection, gang: Gang, new: Stored, deadline: float) -> bool:
    """Reads the present object. Returns True if it contains `new`, written by an attempt whose answer was lost.

    An earlier state of this controller, whose write has failed without a clear answer, may be there as well.
    """
    reference = gang.reference
    try:
        found = await connection.get(
            reference.resource, reference.namespace, reference.name, within=_seconds_until(deadline)
        )
    except ApiError as error:
        if not error.is_missing:
            raise
        gang.version.gone = True
        return True
    if found["metadata"]["uid"] != gang.reference.uid:
        gang.version.gone = True
        return True
    try:
        there = stored_state.read((found.get("status") or {}).get(FIELD))
    except UnreadableError as error:
        raise DeposedError(f"the state of {gang.id} is not as this controller wrote it: {error}") from None
    is_ours = there == new
    revision = gang.stored.revision if gang.stored else 0
    if is_ours or (there is not None and there in gang.version.unconfirmed_writes):
        gang.stored, gang.number = there, new.number
    elif (there.revision if there else 0) != revision:
        raise DeposedError(f"the state of {gang.id} was written by another controller; this one stops")
    gang.learn(found)
    return is_ours


def merge_patch(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a merge patch (RFC 7386) that sets every field of `wanted`; fields that are only in `before` stay.

    Inside a field, entries that are no longer wanted are removed.
    """
    changed = {name: value for name, value in wanted.items() if before.get(name) != value}
    return {name: _patch_of(before.get(name), value) for name, value in changed.items()}


def _patch_of(before: Any, wanted: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    removed = dict.fromkeys(before.keys() - wanted.keys())
    return {**removed, **{name: _patch_of(before.get(name), value) for name, value in wanted.items()}}
