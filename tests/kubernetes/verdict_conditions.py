"""Verdicts as the API server shows them: the condition Diagnosed of a job's object, and its Events."""

from __future__ import annotations

import asyncio
from typing import Any

from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace

import strays


async def condition_of(place: OperatorPlace, name: str, path: str = JOBS) -> dict[str, Any]:
    """The condition Diagnosed of a job's object, once it is there."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            found = (await place.api.get(f"{namespaced(path)}/{name}")).get("status") or {}
            for each in found.get("conditions") or ():
                if each["type"] == "Diagnosed":
                    return each
            await asyncio.sleep(0.05)


async def no_condition_of(place: OperatorPlace, name: str, path: str = JOBS) -> None:
    """Waits until the job's object has no condition Diagnosed."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            found = (await place.api.get(f"{namespaced(path)}/{name}")).get("status") or {}
            if "Diagnosed" not in {each["type"] for each in found.get("conditions") or ()}:
                return
            await asyncio.sleep(0.05)


async def event_with(place: OperatorPlace, reason: str, message: str) -> dict[str, Any]:
    """The Event with this reason and message, once it is there."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            listed = await place.api.get(f"/api/v1/namespaces/{NAMESPACE}/events")
            for each in listed["items"]:
                if (each["reason"], each["message"]) == (reason, message):
                    return each
            await asyncio.sleep(0.05)


async def verdicts_of(place: OperatorPlace, kind: str, name: str) -> list[int]:
    """Counts of the Events about the verdicts on a job."""
    listed = (await place.api.get(f"/api/v1/namespaces/{NAMESPACE}/events"))["items"]
    return [
        each.get("count") or 1
        for each in listed
        if (each["reason"], each["involvedObject"]["name"]) == (f"{kind}Diagnosed", name)
    ]
