"""`windlass operator install --monitoring` against an API server without and with the Prometheus operator's kinds."""

from __future__ import annotations

import asyncio

import pytest

from deploy.test_installation import DEFINITION, api, plane, windlass  # noqa: F401 - fixtures
from windlass.controlplane.api import ApiError

pytestmark = pytest.mark.apiserver
MONITORING = ("ServiceMonitor", "PrometheusRule")


def test_monitoring_is_left_out_where_its_kinds_are_missing(windlass, api):  # noqa: F811
    def effects():
        code, out, _ = windlass("install", "--monitoring", "--wait", "0")
        assert code == 0
        return {
            kind: line.split("  ")[0]
            for line in out.splitlines()
            for kind in MONITORING
            if kind.lower() in line.lower()
        }

    assert set(effects().values()) == {"left out"}

    async def define(client):
        for kind in MONITORING:
            await client.post(DEFINITION, monitoring_definition(kind))
        for kind in MONITORING:
            while not await is_served(client, f"/apis/monitoring.coreos.com/v1/{kind.lower()}s"):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.05)

    api(define)
    try:
        assert set(effects().values()) == {"created"}
        assert set(effects().values()) == {"unchanged"}
    finally:
        for kind in MONITORING:
            api(lambda client, kind=kind: client.delete(f"{DEFINITION}/{kind.lower()}s.monitoring.coreos.com"))


def monitoring_definition(kind):
    """A definition of the Prometheus operator's kind that accepts every field."""
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def is_served(client, path):
    try:
        await client.get(path)
    except ApiError:
        return False
    return True
