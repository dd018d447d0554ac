"""The initializers of a TrainJob: jobs of its runtime that load the dataset and the model before the trainer starts.

Source: kubeflow/trainer v2.3, pkg/runtime/framework/plugins/jobset/{jobset,builder}.go, pkg/constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.jobs.kubernetes.kinds.trainjob_runtime import refuse_runtime
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.pods.pod_assembly import upsert_env, with_additions
from windlass.jobs.kubernetes.train_runtimes import STEP

INITIALIZERS: Mapping[str, str] = {"dataset": "dataset-initializer", "model": "model-initializer"}
"""Parts of `spec.initializer`: each with the name of its job in the runtime and of the container there."""
_VOLUME = "initializer"
_STORAGE_URI = "STORAGE_URI"


def ancestor_of(job: ManifestField) -> str:
    """Returns what a job of a runtime is for, by its label: "trainer", or the name of an initializer."""
    return job["template"]["metadata"]["labels"][STEP].text()


def check_initializers(manifest: ManifestField, jobs: Sequence[ManifestField]) -> None:
    """Refuses a runtime without the jobs that the initializers of a TrainJob configure. Raises ManifestError."""
    pods = {job["name"].text(): job["template"]["spec"]["template"]["spec"] for job in jobs}
    for part, name in INITIALIZERS.items():
        if manifest["spec"]["initializer"][part].value is None:
            continue
        if name not in pods:
            refuse_runtime(f"has no job {name}, which spec.initializer.{part} configures")
        container = next((each for each in pods[name]["containers"].items() if each["name"].text() == name), None)
        if container is None:
            refuse_runtime(f"has no container {name} in its job {name}, which spec.initializer.{part} configures")
        if _VOLUME not in (mount["name"].text() for mount in container["volumeMounts"].items()):
            refuse_runtime(f"has no volumeMount {_VOLUME} in the container {name}, for the {part}")


def with_initializer(manifest: ManifestField, job: ManifestField, template: Manifest) -> Manifest:
    """The pod template of a runtime's job, with the values of the initializer that it is for."""
    asked = next((_asked(manifest, part) for part, name in INITIALIZERS.items() if name == ancestor_of(job)), None)
    if asked is None or asked.value is None:
        return template
    spec = ManifestField(template)["spec"]
    containers = [
        _configured(each.mapping(), asked) if each["name"].text() == ancestor_of(job) else each.value
        for each in spec["containers"].items()
    ]
    return {**template, "spec": {**spec.mapping(), "containers": containers}}


def _asked(manifest: ManifestField, part: str) -> ManifestField:
    return manifest["spec"]["initializer"][part]


def _configured(container: Manifest, asked: ManifestField) -> Manifest:
    variables = list(_variables(asked))
    changed = {**container, "env": upsert_env(container.get("env"), variables)} if variables else container
    secret = asked["secretRef"]["name"].text()
    return with_additions(changed, envFrom=[{"secretRef": {"name": secret}}]) if secret else changed


def _variables(asked: ManifestField) -> Iterator[dict[str, Any]]:
    if uri := asked["storageUri"].text():
        yield {"name": _STORAGE_URI, "value": uri}
    for item in asked["env"].items():
        yield {**item.mapping(), "name": item["name"].text()}
