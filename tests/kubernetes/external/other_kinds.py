"""Kinds of other projects with the fields that their gangs use, and objects of these kinds."""

from __future__ import annotations

from typing import Any

NAMESPACE = "default"


def definition(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


VOLCANO = definition("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
JOB_SET = definition("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


def path(api_version: str, plural: str) -> str:
    return f"/apis/{api_version}/namespaces/{NAMESPACE}/{plural}"


PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
COSCHEDULING_GROUPS = path("scheduling.x-k8s.io/v1alpha1", "podgroups")
VOLCANO_GROUPS = path("scheduling.volcano.sh/v1beta1", "podgroups")
NATIVE_GROUPS = path("scheduling.k8s.io/v1alpha2", "podgroups")
JOB_SETS = path("jobset.x-k8s.io/v1alpha2", "jobsets")
JOBS = path("batch/v1", "jobs")
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
POLICIES = "/apis/windlass.dev/v1alpha1/schedulingpolicies"
BUDGETS = path("policy/v1", "poddisruptionbudgets")
VOLCANO_NAME = "scheduling.k8s.io/group-name"


def pod(name: str, gpus: int = 1, **more: Any) -> dict[str, Any]:
    """`more`: labels, annotations, and any field of the spec."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    about = {key: more.pop(key) for key in ("labels", "annotations", "ownerReferences") if key in more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, **about},
        "spec": {
            "schedulerName": "windlass",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "any", "resources": resources}],
            **more,
        },
    }


def coscheduling(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    return _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": minimum, **spec})


def coscheduled(group: str, name: str, gpus: int = 1, **more: Any) -> dict[str, Any]:
    return pod(name, gpus, labels={"scheduling.x-k8s.io/pod-group": group}, **more)


def volcano(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    return _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, {"minMember": minimum, **spec})


def native(name: str, minimum: int) -> dict[str, Any]:
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return _object("scheduling.k8s.io/v1alpha2", "PodGroup", name, policy)


def batch_job(name: str, parallelism: int, completions: int | None = None, **annotations: str) -> dict[str, Any]:
    template = pod(name, labels={"windlass.dev/gang": name}, annotations=annotations)
    spec = {
        "parallelism": parallelism,
        "completions": completions or parallelism,
        "completionMode": "Indexed",
        "backoffLimit": 4,
        "template": {"metadata": template["metadata"] | {"name": None, "namespace": None}, "spec": template["spec"]},
    }
    return _object("batch/v1", "Job", name, spec)


def job_set(name: str, **sizes: int) -> dict[str, Any]:
    """A JobSet of replicated jobs by name, each with one Job of this number of pods."""
    jobs = [
        {"name": job, "replicas": 1, "template": {"spec": {"parallelism": size, "completions": size}}}
        for job, size in sizes.items()
    ]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": jobs})


def of_job_set(name: str, job: str, index: int) -> dict[str, Any]:
    labels = {
        "windlass.dev/gang": name,
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    return pod(f"{name}-{job}-{index}", labels=labels)


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def budget(name: str, app: str) -> dict[str, Any]:
    """A disruption budget that protects all pods with these labels."""
    return _object(
        "policy/v1", "PodDisruptionBudget", name, {"minAvailable": "100%", "selector": {"matchLabels": {"app": app}}}
    )


def policy(**spec: str) -> dict[str, Any]:
    metadata = {"name": "default"}
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "SchedulingPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
