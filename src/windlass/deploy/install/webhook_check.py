"""Check of the webhooks that other operators of our kinds have left: without a server they refuse every job.

A configuration counts if each of its rules names only kinds of ours and their runtimes, so that nothing else depends on
it: those of training-operator and trainer v2, not those of Kueue or of policy engines. Windlass never deletes one.
Source: k8s.io/api v0.36, admissionregistration/v1 (failurePolicy is Fail by default), discovery/v1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.served_kinds import JOB_KINDS, RUNTIMES
from windlass.deploy.install.findings import Finding, failure, ok, warning

_GROUP = "admissionregistration.k8s.io"
_CONFIGURATIONS = (
    Resource(_GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
    Resource(_GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
)
_ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_SERVICE = "kubernetes.io/service-name"
_ABOUT = "webhooks"
_OURS = frozenset(kind.plural for kind in (*JOB_KINDS, *RUNTIMES))
_GROUPS = frozenset({"kubeflow.org", "trainer.kubeflow.org"})
_Service = tuple[str, str]
"""Namespace and name."""


async def check_webhooks(connection: Connection, _namespace: str) -> list[Finding]:
    """Finds webhooks of Kubeflow's operators, and whether anything answers for them."""
    found = await asyncio.gather(*(connection.list(kind) for kind in _CONFIGURATIONS))
    kinds = zip(_CONFIGURATIONS, found, strict=True)
    configurations = [(kind.kind, each) for kind, listed in kinds for each in listed if kubeflow_services(each)]
    services = sorted({each for _, one in configurations for each in kubeflow_services(one)})
    slices = await asyncio.gather(
        *(connection.list(_ENDPOINT_SLICES, space, selector=f"{_SERVICE}={name}") for space, name in services)
    )
    served = {service for service, listed in zip(services, slices, strict=True) if has_endpoints(listed)}
    return findings_of_webhooks(configurations, served)


def findings_of_webhooks(
    configurations: Iterable[tuple[str, Mapping[str, Any]]], served: Iterable[_Service]
) -> list[Finding]:
    """Findings about configurations of Kubeflow's, each with its kind. `served`: the services that have endpoints."""
    answering = frozenset(served)
    found = [_finding(kind, each, answering) for kind, each in configurations if kubeflow_services(each)]
    return found or [ok(_ABOUT, "no webhook of another operator checks jobs")]


def kubeflow_services(configuration: Mapping[str, Any]) -> frozenset[_Service]:
    """The services without which a configuration refuses jobs; none if it is about anything else as well."""
    webhooks = configuration.get("webhooks") or ()
    rules = [rule for each in webhooks for rule in each.get("rules") or ()]
    if not all(_is_about_jobs(rule) for rule in rules):
        return frozenset()
    required = [each for each in webhooks if each.get("failurePolicy", "Fail") == "Fail" and each.get("rules")]
    services = [each["clientConfig"].get("service") for each in required]
    return frozenset((each["namespace"], each["name"]) for each in services if each)


def has_endpoints(slices: Iterable[Mapping[str, Any]]) -> bool:
    """Tells whether one of the endpoints of a service is ready, or of unknown state."""
    endpoints = [each for one in slices for each in one.get("endpoints") or ()]
    return any((each.get("conditions") or {}).get("ready") is not False for each in endpoints)


def _is_about_jobs(rule: Mapping[str, Any]) -> bool:
    resources = {each.partition("/")[0] for each in rule.get("resources") or ()}
    return _GROUPS.issuperset(rule.get("apiGroups") or ()) and _OURS.issuperset(resources)


def _finding(kind: str, configuration: Mapping[str, Any], served: frozenset[_Service]) -> Finding:
    name, services = configuration["metadata"]["name"], kubeflow_services(configuration)
    rules = [rule for each in configuration["webhooks"] for rule in each.get("rules") or ()]
    plurals = ", ".join(sorted({each.partition("/")[0] for rule in rules for each in rule["resources"]}))
    missing = sorted(services - served)
    where = ", ".join("/".join(each) for each in missing or sorted(services))
    when = "which has no endpoint:" if missing else "and once that does not answer,"
    message = f"{kind} {name} asks {where}, {when} every creation and change of {plurals} is refused"
    return (failure if missing else warning)(_ABOUT, message, f"kubectl delete {kind.lower()} {name}")
