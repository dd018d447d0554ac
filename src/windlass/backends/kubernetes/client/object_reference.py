"""The objects that jobs live in: what a gang is called here, and where its state is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.resources import Resource

OWN_KIND = "TrainingJob"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """One object. Another object of the same name has another uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str

    @property
    def job_id(self) -> str:
        """What the job is called in plans and in words: `team/digits`, or `team/pytorchjob/digits`."""
        return job_id(self.resource.kind, self.namespace, self.name)


def job_id(kind: str, namespace: str, name: str) -> str:
    """See `Home.job_id`."""
    return f"{namespace}/{name}" if kind == OWN_KIND else f"{namespace}/{kind.lower()}/{name}"


def meant(written: str, namespace: str) -> str:
    """The job id that a name in a job of this namespace stands for: that of a TrainingJob beside it."""
    return written if "/" in written else job_id(OWN_KIND, namespace, written)


def home_of(resource: Resource, manifest: Mapping[str, Any]) -> ObjectReference:
    """Where an object stands, by its metadata."""
    metadata = manifest["metadata"]
    return ObjectReference(resource, metadata["namespace"], metadata["name"], metadata["uid"])


def version_of(manifest: Mapping[str, Any]) -> int:
    """Its resource version; comparable since KEP-5504: the larger is the later."""
    return int(manifest["metadata"]["resourceVersion"])
