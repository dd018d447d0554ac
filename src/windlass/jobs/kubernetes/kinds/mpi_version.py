"""Which of the two operators' MPIJobs a manifest is, read through whichever version.

One definition serves both versions and converts nothing, so that an object says the version that it was asked for and
not the one that it was made with. Our definition has each version write its own name into `spec.dialect` when an object
is made; under another definition, of one version, that version is the answer.
"""

from __future__ import annotations

from windlass.jobs.kubernetes.manifests.reader import Manifest

GROUP = "kubeflow.org"
V1, V2 = "v1", "v2beta1"
DIALECTS = (V1, V2)


def in_its_version(manifest: Manifest) -> Manifest:
    """The manifest of an MPIJob under the API version that it was made with; any other manifest as it is."""
    spec = manifest.get("spec")
    dialect = spec.get("dialect") if isinstance(spec, dict) else None
    if manifest.get("kind") != "MPIJob" or dialect not in DIALECTS:
        return manifest
    return {**manifest, "apiVersion": f"{GROUP}/{dialect}"}
