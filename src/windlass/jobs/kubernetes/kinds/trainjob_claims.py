"""Volume claims of a TrainJob: those that its runtime's JobSet would make for all of its jobs (`volumeClaimPolicies`).

Source: sigs.k8s.io/jobset v0.12, api/jobset/v1alpha2 (VolumeClaimPolicy), KEP-572.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import job_set_labels, metadata, with_additions

_DELETE, _RETAIN = "Delete", "Retain"


def claims_of_runtime(spec: ManifestField, job: str) -> dict[str, str]:
    """Returns the claims that a job of this name makes: storage classes by name. Raises ManifestError."""
    return {_claim_name(template, job): template["spec"]["storageClassName"].text() for _, template in _templates(spec)}


def with_claims(spec: ManifestField, job: str, template: Manifest) -> Manifest:
    """The pod template with a volume for each claim that one of its containers mounts. Raises ManifestError."""
    pod = ManifestField(template)["spec"]
    mounted = {
        mount["name"].text()
        for part in ("containers", "initContainers")
        for container in pod[part].items()
        for mount in container["volumeMounts"].items()
    }
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": _claim_name(each, job)}}
        for _, each in _templates(spec)
        if (name := each["metadata"]["name"].text()) in mounted
    ]
    return {**template, "spec": with_additions(pod.mapping(), volumes=volumes)} if volumes else template


def claim_objects(spec: ManifestField, parsed: ParsedJob) -> Iterator[Manifest]:
    """Yields the claims of a job. It owns them, unless they are to outlive it (`whenDeleted: Retain`)."""
    for policy, template in _templates(spec):
        about = template["metadata"]
        labels = {**about["labels"].text_map(), **job_set_labels(parsed)}
        made = metadata(parsed, _claim_name(template, parsed.name), labels)
        if annotations := about["annotations"].text_map():
            made["annotations"] = dict(annotations)
        if policy["retentionPolicy"]["whenDeleted"].choice((_DELETE, _RETAIN), _DELETE) == _RETAIN:
            made.pop("ownerReferences", None)
        body = template["spec"].mapping()
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": made, "spec": body}


def _templates(spec: ManifestField) -> Iterator[tuple[ManifestField, ManifestField]]:
    """Yields each template of a claim, after its policy."""
    for policy in spec["template"]["spec"]["volumeClaimPolicies"].items():
        policy["retentionPolicy"]["whenDeleted"].choice((_DELETE, _RETAIN), _DELETE)
        for template in policy["templates"].items():
            if not template["metadata"]["name"].text():
                template["metadata"]["name"].refuse("expects the name of a volume")
            yield policy, template


def _claim_name(template: ManifestField, job: str) -> str:
    return f"{template['metadata']['name'].text()}-{job}"
