"""A cluster with the kinds of every dialect of external gangs, and with the Job controller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from planes.fixtures import serve

import strays
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds

from . import other_kinds

NATIVE = (
    "--feature-gates=GenericWorkload=true,GangScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    for plane in serve(request, Settings(controllers=True, node_grace=600, apiserver_flags=NATIVE)):
        asyncio.run(define(plane))
        yield plane


async def define(plane: ControlPlane) -> None:
    definitions = [*crds((*DEFAULT, POD_GROUPS)), other_kinds.VOLCANO, other_kinds.JOB_SET]
    async with plane.api() as api, asyncio.timeout(strays.TIMEOUT_S * 3):
        for definition in definitions:
            await api.post(DEFINITIONS, definition)
        for definition in definitions:
            while not await is_established(api, definition["metadata"]["name"]):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.1)


async def is_established(api: Api, name: str) -> bool:
    found = (await api.get(f"{DEFINITIONS}/{name}")).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in found)
