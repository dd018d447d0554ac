"""The object of a job as a new submission: without the fields of the server, and without the state of the job. Pure."""

from __future__ import annotations

from typing import Any

from windlass.backends.kubernetes.client.object_reference import OWN_KIND
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, SECRETS, Resource
from windlass.backends.kubernetes.gangs.stored_state import ANNOTATION
from windlass.jobs.kubernetes.job_patches import STOPPED, has_run_policy
from windlass.jobs.kubernetes.labels import ARRAY, ARRAY_INDEX, ARRAY_LIMIT, CANCEL, JOB_NAME_ANNOTATION, RERUN_OF, USER
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.call_secret import CALL_PREFIX
from windlass.jobs.kubernetes.pods.code_archive import CODE_PREFIX

Manifest = dict[str, Any]
_SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_STATE_ANNOTATIONS = (ANNOTATION, CANCEL, USER, STOPPED)
"""Annotations that record the state of the original object, and its user."""
_ARRAY_LABELS = (ARRAY, ARRAY_INDEX, ARRAY_LIMIT)
_OF_ONE_OBJECT = ("name", "ownerReferences", "finalizers")
_MAX_NAME = 63
"""Characters of a generated name, as the API server cuts it."""
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of kubectl with the manifest of the original object."""


def without_server_fields(manifest: Manifest) -> Manifest:
    """Returns a manifest as printed by `kubectl get -o yaml`, without server-set fields and without its state."""
    about = _mapping(manifest.get("metadata"))
    kept = {name: value for name, value in about.items() if name not in _SERVER_FIELDS}
    if annotations := _mapping(kept.pop("annotations", None)):
        kept["annotations"] = {name: text for name, text in annotations.items() if name not in _STATE_ANNOTATIONS}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": kept}


def repeated_object(manifest: Manifest, job_name: str, job_id: str, user: str, name_end: str) -> Manifest:
    """The object of an ended job for another run, under another name, alone and without what it waited for.

    `job_name`: of the job, which both runs have; `job_id`: of the first run; `user`: who submits the second;
    `name_end`: random end of the name. A name that the API server generates would be another in a repeated request.
    """
    kept = without_server_fields(manifest)
    about, spec, kind = kept["metadata"], dict(_mapping(kept.get("spec"))), str(kept.get("kind"))
    labels = {word: text for word, text in _mapping(about.get("labels")).items() if word not in _ARRAY_LABELS}
    annotations = {word: text for word, text in _mapping(about.get("annotations")).items() if word != _APPLIED}
    annotations |= {RERUN_OF: job_id, USER: user}
    if kind == OWN_KIND:
        annotations[JOB_NAME_ANNOTATION] = job_name
        spec.pop("after", None)
    name_begin = about.get("generateName") or f"{about['name']}-"
    named = {
        **{name: value for name, value in about.items() if name not in _OF_ONE_OBJECT},
        "generateName": name_begin,
        "name": f"{name_begin[: _MAX_NAME - len(name_end)]}{name_end}",
        "annotations": annotations,
    }
    return {**kept, "metadata": {**named, "labels": labels}, "spec": _resumed(spec, kind)}


def shipped_objects(parsed: ParsedJob) -> set[tuple[Resource, str]]:
    """ConfigMaps with the code and Secrets with the call that a submission has shipped with a job, by name."""
    specs = [ManifestField(each.template, (each.type,))["spec"] for each in parsed.replicas]
    maps = {volume["configMap"]["name"].text() for spec in specs for volume in spec["volumes"].items()}
    variables = (
        variable for spec in specs for container in spec["containers"].items() for variable in container["env"].items()
    )
    calls = {variable["valueFrom"]["secretKeyRef"]["name"].text() for variable in variables}
    return {
        *((CONFIG_MAPS, name) for name in maps if name.startswith(CODE_PREFIX)),
        *((SECRETS, name) for name in calls if name.startswith(CALL_PREFIX)),
    }


def owned_by(manifest: Manifest) -> Manifest:
    """The strategic merge patch that adds an object to the owners of another one."""
    about = manifest["metadata"]
    owner = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": about["name"], "uid": about["uid"]}
    return {"metadata": {"ownerReferences": [owner]}}


def _resumed(spec: Manifest, kind: str) -> Manifest:
    """A spec that does not suspend its job: the first run may have been suspended before it was cancelled."""
    if not has_run_policy(kind):
        return {**spec, "suspend": False} if spec.get("suspend") else spec
    policy = _mapping(spec.get("runPolicy"))
    return {**spec, "runPolicy": {**policy, "suspend": False}} if policy.get("suspend") else spec


def _mapping(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}
