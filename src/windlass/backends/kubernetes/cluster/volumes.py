"""Where a pod's volumes let it go, and what is to be done about claims that wait for a node to be chosen.

Sources: the scheduler's VolumeBinding plugin; persistent volumes' node affinity. Volumes are provisioned for the node
that a claim is told of; local volumes without a provisioner, which somebody would have to choose, are not bound here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any, TypeAlias

from windlass.backends.kubernetes.client.objects import PersistentVolume, PersistentVolumeClaim
from windlass.core.model.job import Match
from windlass.jobs.kubernetes.manifest_reader import Manifest, Refused, Spot
from windlass.jobs.kubernetes.pods.pod_placement import affinity_of

Terms: TypeAlias = tuple[tuple[Match, ...], ...]
"""Any of these, all conditions of it; none: every node."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation that tells a claim's provisioner where its volume is wanted."""
MOST_TERMS = 256
"""When what several volumes allow is multiplied out."""
_WAITS = "WaitForFirstConsumer"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """storage.k8s.io/v1, as far as it matters to where a pod goes."""

    name: str
    waits: bool = False
    """Its volumes are made once a node is chosen."""
    provisions: bool = True
    terms: Terms = ()
    """Where it makes them."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What there is, by name; claims by namespace and name."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Storage:
    """What a pod's volumes come to."""

    terms: Terms = ()
    to_choose: tuple[str, ...] = ()
    """Claims to annotate with `SELECTED_NODE`, the pod's node, before it is bound."""
    trouble: str = ""
    """Why its pod cannot go anywhere now, with what would help; "" if it can."""


def storage_class(manifest: Manifest) -> StorageClass:
    """From the API object."""
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


def claims_of(spec: Spot, pod: str = "") -> tuple[str, ...]:
    """The claims that a pod of this spec mounts; an ephemeral volume's is named after the pod, once that has a name.

    Raises Refused.
    """
    found = []
    for volume in spec["volumes"].items():
        if claim := volume["persistentVolumeClaim"]["claimName"].text():
            found.append(claim)
        elif pod and volume["ephemeral"].value is not None:
            found.append(f"{pod}-{volume['name'].text()}")
    return tuple(dict.fromkeys(found))


def storage(names: Iterable[str], namespace: str, stock: Stock) -> Storage:
    """What the claims of these names come to, together."""
    found = [_of_claim(name, namespace, stock) for name in names]
    trouble = next((each.trouble for each in found if each.trouble), "")
    try:
        terms = both(*[each.terms for each in found])
    except ValueError as error:
        return Storage(trouble=trouble or str(error))
    return Storage(terms, tuple(name for each in found for name in each.to_choose), trouble)


def both(*all_terms: Terms) -> Terms:
    """Terms that hold where each of these does. Raises ValueError if they are more than MOST_TERMS."""
    return reduce(_both, [terms for terms in all_terms if terms], ())


def _both(left: Terms, right: Terms) -> Terms:
    if not left or left == right:
        return right
    joined = tuple(dict.fromkeys(_joined(one, other) for one, other in product(left, right)))
    if len(joined) > MOST_TERMS:
        raise ValueError(f"its volumes and its affinity allow {len(joined)} places together; give them fewer terms")
    return joined


def _joined(one: tuple[Match, ...], other: tuple[Match, ...]) -> tuple[Match, ...]:
    """A term without conditions is met by no node, and so is what it is joined with."""
    return tuple(dict.fromkeys((*one, *other))) if one and other else ()


def _of_claim(name: str, namespace: str, stock: Stock) -> Storage:
    claim = stock.claims.get((namespace, name))
    if claim is None:
        return Storage(trouble=f"there is no PersistentVolumeClaim {name} in namespace {namespace}; create it")
    if claim.metadata.deletion_timestamp:
        return Storage(trouble=f"PersistentVolumeClaim {name} is being deleted; create it again once it has gone")
    if claim.status.phase == "Lost":
        return Storage(trouble=f"PersistentVolumeClaim {name} has lost its volume {claim.spec.volume_name}")
    if claim.spec.volume_name:
        return _bound(name, claim.spec.volume_name, stock)
    return _unbound(name, claim.spec.storage_class_name or "", stock)


def _bound(name: str, volume_name: str, stock: Stock) -> Storage:
    volume = stock.volumes.get(volume_name)
    if volume is None:
        return Storage(trouble=f"PersistentVolumeClaim {name} waits for its volume {volume_name}, which is not there")
    try:
        return Storage(_terms(volume.spec.node_affinity))
    except Refused as refused:
        return Storage(trouble=f"the node affinity of volume {volume_name} cannot be read: {refused.fault.message}")


def _terms(node_affinity: Mapping[str, Any] | None) -> Terms:
    """Raises Refused."""
    required = (node_affinity or {}).get("required")
    if required is None:
        return ()
    return affinity_of(
        Spot({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    )


def _unbound(name: str, class_name: str, stock: Stock) -> Storage:
    known = stock.classes.get(class_name)
    if class_name and known is None:
        return Storage(trouble=f"PersistentVolumeClaim {name}: there is no StorageClass {class_name}; create it")
    if known is None or not known.waits:
        return Storage(trouble=f"PersistentVolumeClaim {name} is not bound to a volume yet")
    if not known.provisions:
        return Storage(
            trouble=f"PersistentVolumeClaim {name}: nobody chooses among the volumes of class {class_name}; name one "
            "in its volumeName, or use a class that makes them"
        )
    return Storage(known.terms, (name,))
