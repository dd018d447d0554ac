"""Hash of the pods of a gang, in a label of each: a pod without a node is bound only if it is as its gang has it now.

The spec of a job may change while its pods exist without a node. The creation of a pod for the earlier spec may be
under way then, or an earlier leader may have created it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from windlass.backends.kubernetes.client.objects import Pod
from windlass.jobs.kubernetes.labels import POD_TEMPLATE_HASH
from windlass.jobs.kubernetes.parsed_job import Member

_LENGTH_B = 8
"""Bytes of the hash."""


def with_template_hash(members: Iterable[Member]) -> Mapping[str, Member]:
    """Returns the members by name, each pod labelled with the hash of all of them."""
    members = list(members)
    hashed = hashlib.blake2b(digest_size=_LENGTH_B)
    for member in members:
        hashed.update(msgspec.json.encode(member.pod, order="deterministic"))
    label = {POD_TEMPLATE_HASH: hashed.hexdigest()}
    return {member.name: _labelled(member, label) for member in members}


def is_current(pod: Pod, member: Member) -> bool:
    """Tells whether a pod is as its gang has it now; one on a node is left as it is."""
    there, wanted = pod.metadata.labels, member.pod["metadata"]["labels"]
    return bool(pod.spec.node_name) or there.get(POD_TEMPLATE_HASH) == wanted[POD_TEMPLATE_HASH]


def _labelled(member: Member, label: Mapping[str, str]) -> Member:
    about = member.pod["metadata"]
    return replace(
        member, pod={**member.pod, "metadata": {**about, "labels": {**(about.get("labels") or {}), **label}}}
    )
