"""References to the objects of jobs, and the job ids made from their namespaces, kinds and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.client.resources import Resource
from windlass.jobs.kubernetes.bounded_integers import require_integer

OWN_KIND = "TrainingJob"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Reference to one object by kind, name and uid: another object of the same name has another uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str

    @property
    def owner_key(self) -> OwnerKey:
        """The key by which objects name it as their owner."""
        return OwnerKey(self.namespace, self.uid)

    @property
    def job_id(self) -> str:
        """The job's id in plans and texts: `team/digits`, or `team/pytorchjob/digits`."""
        return job_id(self.resource.kind, self.namespace, self.name)


def job_id(kind: str, namespace: str, name: str) -> str:
    """Returns the job id of an object. See `ObjectReference.job_id`."""
    return f"{namespace}/{name}" if kind == OWN_KIND else f"{namespace}/{kind.lower()}/{name}"


def referenced_job_id(written: str, namespace: str) -> str:
    """Returns the job id that a name inside a job of this namespace refers to: a TrainingJob of that namespace."""
    return written if "/" in written else job_id(OWN_KIND, namespace, written)


def reference_to(resource: Resource, manifest: Mapping[str, Any]) -> ObjectReference:
    """Returns the reference to an object from its metadata."""
    metadata = manifest["metadata"]
    return ObjectReference(resource, metadata["namespace"], metadata["name"], metadata["uid"])


def version_of(manifest: Mapping[str, Any]) -> int:
    """Returns the resource version of an object; comparable since KEP-5504: the larger is the later."""
    return require_integer(manifest["metadata"]["resourceVersion"])
