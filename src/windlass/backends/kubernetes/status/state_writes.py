"""Writes the state of a job into its object, from which the next leader reads it.

A write is conditional on the known resource version; after a conflict the object is read again. Only the Lease decides
which replica leads: a connection without it sends no write. So a state in the object that this controller has not
written is another writer's, a user's for example, and is replaced by the whole state of this controller.

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
from windlass.backends.kubernetes.client.object_reference import version_of
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import FIELD, Stored, UnreadableError
from windlass.core.model.status import JobState, Status

WRITE_TIMEOUT_S = 3.0


async def write_state(connection: Connection, gang: Gang, state: JobState, fields: Mapping[str, Any]) -> bool:
    """Writes a state with the rest of the status. Returns whether it has replaced another writer's state.

    Raises ApiError, Unreachable.
    """
    async with gang.version.write_lock:
        is_written = gang.takes_known_state() and not gang.has_unwritten_state
        if gang.version.gone or (is_written and gang.stored is not None and gang.stored.status == state.status):
            return False
        return await _write(connection, gang, state, fields)


async def write_status(connection: Connection, gang: Gang, fields_of: Callable[[], Mapping[str, Any]]) -> None:
    """Writes only the rest of the status, and the state if another writer has changed it.

    `fields_of` returns the rest; it is called once no other write is under way, so that an end that was being written
    meanwhile is not taken back. Raises ApiError, Unreachable.
    """
    async with gang.version.write_lock:
        if gang.version.gone:
            return
        fields = fields_of()
        if gang.has_unwritten_state or not gang.takes_known_state():
            await _write(connection, gang, gang.state, fields)
            return
        reference, about = gang.reference, {"resourceVersion": str(gang.version.known), "uid": gang.reference.uid}
        body = {"metadata": about, "status": _changes(gang, fields)}
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


async def _write(connection: Connection, gang: Gang, state: JobState, fields: Mapping[str, Any]) -> bool:
    """Writes until the server has taken the state or the time is over. Returns as `write_state` does."""
    deadline, replaces = _deadline(), False
    while True:
        is_known = gang.takes_known_state()
        before = gang.stored or Stored(state.number, 0, Status())
        new = replace(before.followed_by(state.status), number=state.number)
        if not is_known:
            new, replaces = replace(new, placed=None), True  # also the placements, which it may have changed
        body = {
            "metadata": {"resourceVersion": str(gang.version.known), "uid": gang.reference.uid},
            "status": {**_changes(gang, fields), FIELD: stored_state.to_patch(new)},
        }
        try:
            answer = await _patch(connection, gang, body, deadline)
        except ApiError as error:
            if error.is_missing:
                gang.version.gone = True
                return False
            if error.is_invalid and fields:
                fields = {}  # the rest of the status is written with the next state
                continue
            if not error.is_conflict:
                gang.version.unconfirmed_writes.append(new)
                raise
            if await _look_again(connection, gang, new, deadline):
                return replaces
            continue
        except Unreachable:
            gang.version.unconfirmed_writes.append(new)
            raise
        gang.version.unconfirmed_writes.clear()
        _take(gang, new, answer)
        return replaces


def _take(gang: Gang, new: Stored, answer: Mapping[str, Any]) -> None:
    """Takes a state that is in the object as the one committed last."""
    gang.stored, gang.number = new, new.number
    gang.version.committed = (answer.get("status") or {}).get(FIELD)
    if not gang.learn(answer) and version_of(answer) < gang.version.known:
        gang.notes.needs_write = True  # another writer's change was seen before the answer


async def _look_again(connection: Connection, gang: Gang, new: Stored, deadline: float) -> bool:
    """Reads the present object. Returns True if it is gone, or contains `new` by an attempt whose answer was lost."""
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
    if _has_state(found, new):
        _take(gang, new, found)
        return True
    gang.learn(found)
    return False


def _has_state(manifest: Mapping[str, Any], state: Stored) -> bool:
    try:
        return stored_state.read((manifest.get("status") or {}).get(FIELD)) == state
    except UnreadableError:
        return False


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
