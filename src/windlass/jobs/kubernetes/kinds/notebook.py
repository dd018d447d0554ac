"""Notebook of Kubeflow: a pod that serves Jupyter, as a preemptible gang of one.

Source: kubeflow/kubeflow (Apache-2.0), components/notebook-controller: api/v1/notebook_types.go,
controllers/notebook_controller.go. There is no StatefulSet here: the pod, its labels and its Service have the names
that the one of Kubeflow gives them. The notebook is suspended while it has the annotation `STOPPED`.
"""

from __future__ import annotations

from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE, Job, Launcher, RestartPolicy, Role
from windlass.jobs.kubernetes.job_patches import NOTEBOOK, STOPPED
from windlass.jobs.kubernetes.kinds.parsed_gang import grace_of, warnings_of_templates
from windlass.jobs.kubernetes.kinds.replica_specs import check_template
from windlass.jobs.kubernetes.kinds.run_policy import labelled_queue
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField, read_all
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas, RunPolicy
from windlass.jobs.kubernetes.pods.anti_affinity import anti_affinity_selectors
from windlass.jobs.kubernetes.pods.pod_assembly import (
    env_vars,
    first_container,
    metadata,
    pod_object,
    pod_spec,
    replica_labels,
    with_additions,
)
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of, tolerations_of
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.syntax.names import DNS_LABEL, is_name

KIND, PLURAL = NOTEBOOK, "notebooks"
V1, V1BETA1 = "kubeflow.org/v1", "kubeflow.org/v1beta1"
PORT = 8888
_SERVED_PORT = 80
_FOLDER = "/home/jovyan"
_FS_GROUP = 100
"""Group of the files of a volume in the images of Jupyter, where the pod has no security context."""
_LONGEST_NAME = 61
"""The pod is called `NAME-0`, which must be a DNS label of 63 characters."""
_LONGEST_PORT_NAME = 63
_UNLIMITED = 1_000_000
"""Restarts of a notebook: like a StatefulSet, it has no end of its own."""


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    template = manifest["spec"]["template"]
    spec = template["spec"]
    name, *_ = read_all(lambda: _name(manifest), lambda: check_template(template, None))
    policy = _policy(manifest)
    written = {**template.mapping(), "metadata": {"labels": manifest["metadata"]["labels"].text_map()}}
    return ParsedJob(
        manifest=manifest.mapping(),
        api_version=manifest["apiVersion"].text(),
        kind=KIND,
        name=name,
        namespace=manifest["metadata"]["namespace"].text() or "default",
        uid=manifest["metadata"]["uid"].text(),
        job=_job(manifest, name, policy, spec),
        settings=settings,
        replicas=(Replicas(KIND, KIND, 1, "Always", written),),
        run_policy=policy,
        priority_class=spec["priorityClassName"].text(),
        anti_affinity={KIND.lower(): anti_affinity_selectors(spec)},
        warnings=tuple(warnings_of_templates({KIND: spec})),
    )


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """The pod of a generation. Its kubelet restarts a server that ends."""
    (replicas,) = parsed.replicas
    name = f"{parsed.name}-0"
    labels = {**replica_labels(parsed, replicas, 0), **_selector(parsed), "notebook-name": parsed.name}
    spec = {**_served(parsed, pod_spec(parsed, replicas)), "restartPolicy": "Always", "hostname": name}
    pod = pod_object(parsed, replicas, name, labels, spec, generation)
    return [Member(name, replicas.role, 0, pod)]


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """The Service of the notebook, which stays while it is stopped."""
    container = parsed.replicas[0].template["spec"]["containers"][0]
    ports = container.get("ports") or [{"containerPort": PORT}]
    name = f"http-{parsed.name}"[:_LONGEST_PORT_NAME].rstrip("-")
    port = {"name": name, "port": _SERVED_PORT, "targetPort": ports[0]["containerPort"]}
    spec = {"type": "ClusterIP", "selector": _selector(parsed), "ports": [{**port, "protocol": "TCP"}]}
    return [{"apiVersion": "v1", "kind": "Service", "metadata": metadata(parsed, parsed.name, {}), "spec": spec}]


def _name(manifest: ManifestField) -> str:
    entry = manifest["metadata"]["name"]
    name = entry.text()
    if not is_name(DNS_LABEL, name) or len(name) > _LONGEST_NAME:
        entry.refuse(f"expects small letters, digits and dashes, a letter first, at most {_LONGEST_NAME} characters")
    return name


def _policy(manifest: ManifestField) -> RunPolicy:
    return RunPolicy(
        clean_pod_policy="None",
        ttl_ms=None,
        deadline_ms=None,
        backoff_limit=None,
        suspend=STOPPED in manifest["metadata"]["annotations"].text_map(),
        managed_by="",
        queue=labelled_queue(manifest),
        min_available=None,
        priority_class="",
        gang_restart=True,
    )


def _job(manifest: ManifestField, name: str, policy: RunPolicy, spec: ManifestField) -> Job:
    role = Role(
        name=KIND.lower(),
        resources=pod_requests(spec),
        node_selector=spec["nodeSelector"].text_map(),
        tolerations=tolerations_of(spec),
        affinity=affinity_of(spec),
    )
    return Job(
        name=name,
        roles=(role,),
        launcher=Launcher.TORCHRUN,
        queue=policy.queue or DEFAULT_QUEUE,
        grace=grace_of(spec),
        restart=RestartPolicy(user_limit=_UNLIMITED, infrastructure_limit=_UNLIMITED),
        suspend=policy.suspend,
        labels=manifest["metadata"]["labels"].text_map(),
    )


def _selector(parsed: ParsedJob) -> dict[str, str]:
    return {"statefulset": parsed.name}


def _served(parsed: ParsedJob, spec: Manifest) -> Manifest:
    """The pod's spec with the defaults of its first container, and the prefix of its addresses."""
    first: dict[str, Any] = dict(spec["containers"][0])
    first["workingDir"] = first.get("workingDir") or _FOLDER
    if not first.get("ports"):
        first["ports"] = [{"name": "notebook-port", "containerPort": PORT, "protocol": "TCP"}]
    prefix = env_vars({"NB_PREFIX": f"/notebook/{parsed.namespace}/{parsed.name}"})
    secured = {} if spec.get("securityContext") else {"securityContext": {"fsGroup": _FS_GROUP}}
    return {**first_container(spec, with_additions(first, env=prefix)), **secured}
