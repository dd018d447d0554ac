"""Node constraints from a pod's volumes, and claims that wait for the choice of a node.

Sources: the scheduler's VolumeBinding plugin; persistent volumes' node affinity. Volumes are provisioned for the node
that is set on a claim; local volumes without a provisioner, which would need a choice, are not bound here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

from windlass.backends.kubernetes.client.objects import PersistentVolume, PersistentVolumeClaim
from windlass.core.model.job import Match
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of

Terms: TypeAlias = tuple[tuple[Match, ...], ...]
"""Alternatives, each a conjunction of conditions; empty: every node."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim that tells its provisioner the node for the volume."""
MAX_TERMS = 256
"""Maximum number of terms after multiplying those of several volumes."""
_WAITS = "WaitForFirstConsumer"
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """storage.k8s.io/v1, reduced to what affects a pod's node."""

    name: str
    waits: bool = False
    """Whether volumes are created after the choice of a node."""
    provisions: bool = True
    terms: Terms = ()
    """The nodes for which it can create volumes."""


@dataclass(frozen=True, slots=True)
class StorageObjects:
    """Existing objects by name; claims by namespace and name."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeConstraints:
    """The constraints of a pod's volumes."""

    terms: Terms = ()
    to_choose: tuple[str, ...] = ()
    """Claims to annotate with `SELECTED_NODE`, the pod's node, before the pod is bound."""
    trouble: str = ""
    """The reason for which its pod cannot be placed now, with the fix; "" for none."""


def storage_class(manifest: Manifest) -> StorageClass:
    """Parses the API object."""
    topologies = manifest.get("allowedTopologies") or ()
    return StorageClass(
        name=manifest["metadata"]["name"],
        waits=manifest.get("volumeBindingMode") == _WAITS,
        provisions=manifest.get("provisioner") != _NO_PROVISIONER,
        terms=tuple(
            tuple(Match(each["key"], "In", tuple(each["values"])) for each in one.get("matchLabelExpressions") or ())
            for one in topologies
        ),
    )


def claims_of(spec: ManifestField, pod: str = "") -> tuple[str, ...]:
    """Returns the claims that a pod of this spec mounts; an ephemeral volume's is named after the pod.

    Raises ManifestError.
    """
    found = []
    for volume in spec["volumes"].items():
        if claim := volume["persistentVolumeClaim"]["claimName"].text():
            found.append(claim)
        elif pod and volume["ephemeral"].value is not None:
            found.append(f"{pod}-{volume['name'].text()}")
    return tuple(dict.fromkeys(found))


def volume_constraints(
    names: Iterable[str], namespace: str, stock: StorageObjects, own: Mapping[str, str] = _NONE
) -> VolumeConstraints:
    """Returns the joint constraints of these claims. `own`: storage classes, by name, of those that the job makes."""
    found = [
        _yet_to_be_made(name, own[name], stock)
        if name in own and (namespace, name) not in stock.claims
        else _of_claim(name, namespace, stock)
        for name in names
    ]
    trouble = next((each.trouble for each in found if each.trouble), "")
    try:
        terms = intersect_terms(*[each.terms for each in found])
    except ValueError as error:
        return VolumeConstraints(trouble=trouble or str(error))
    return VolumeConstraints(terms, tuple(name for each in found for name in each.to_choose), trouble)


def _yet_to_be_made(name: str, class_name: str, stock: StorageObjects) -> VolumeConstraints:
    """Constraints of a claim that its job makes. Its node is chosen unless its class is known not to need that."""
    known = stock.classes.get(class_name)
    return _unbound(name, class_name, stock) if known is not None and known.waits else VolumeConstraints((), (name,))


def intersect_terms(*all_terms: Terms) -> Terms:
    """Returns terms that hold where all of these do. Raises ValueError beyond MAX_TERMS."""
    return reduce(_intersect, [terms for terms in all_terms if terms], ())


def _intersect(left: Terms, right: Terms) -> Terms:
    if not left or left == right:
        return right
    joined = tuple(dict.fromkeys(_joined(one, other) for one, other in product(left, right)))
    if len(joined) > MAX_TERMS:
        raise ValueError(f"its volumes and its affinity allow {len(joined)} places together; give them fewer terms")
    return joined


def _joined(one: tuple[Match, ...], other: tuple[Match, ...]) -> tuple[Match, ...]:
    """Joins two terms. A term without conditions matches no node, and so does a join with it."""
    return tuple(dict.fromkeys((*one, *other))) if one and other else ()


def _of_claim(name: str, namespace: str, stock: StorageObjects) -> VolumeConstraints:
    claim = stock.claims.get((namespace, name))
    if claim is None:
        return VolumeConstraints(
            trouble=f"there is no PersistentVolumeClaim {name} in namespace {namespace}; create it"
        )
    if claim.metadata.deletion_timestamp:
        return VolumeConstraints(
            trouble=f"PersistentVolumeClaim {name} is being deleted; create it again once it has gone"
        )
    if claim.status.phase == "Lost":
        return VolumeConstraints(trouble=f"PersistentVolumeClaim {name} has lost its volume {claim.spec.volume_name}")
    if claim.spec.volume_name:
        return _bound(name, claim.spec.volume_name, stock)
    return _unbound(name, claim.spec.storage_class_name or "", stock)


def _bound(name: str, volume_name: str, stock: StorageObjects) -> VolumeConstraints:
    volume = stock.volumes.get(volume_name)
    if volume is None:
        return VolumeConstraints(
            trouble=f"PersistentVolumeClaim {name} waits for its volume {volume_name}, which is not there"
        )
    try:
        return VolumeConstraints(_terms(volume.spec.node_affinity))
    except ManifestError as error:
        return VolumeConstraints(
            trouble=f"the node affinity of volume {volume_name} cannot be read: {error.fault.message}"
        )


def _terms(node_affinity: Mapping[str, Any] | None) -> Terms:
    """Parses node affinity. Raises ManifestError."""
    required = (node_affinity or {}).get("required")
    if required is None:
        return ()
    return affinity_of(
        ManifestField({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    )


def _unbound(name: str, class_name: str, stock: StorageObjects) -> VolumeConstraints:
    known = stock.classes.get(class_name)
    if class_name and known is None:
        return VolumeConstraints(
            trouble=f"PersistentVolumeClaim {name}: there is no StorageClass {class_name}; create it"
        )
    if known is None or not known.waits:
        return VolumeConstraints(trouble=f"PersistentVolumeClaim {name} is not bound to a volume yet")
    if not known.provisions:
        return VolumeConstraints(
            trouble=f"PersistentVolumeClaim {name}: class {class_name} has no provisioner; set its volumeName, "
            "or use a class with a provisioner"
        )
    return VolumeConstraints(known.terms, (name,))
