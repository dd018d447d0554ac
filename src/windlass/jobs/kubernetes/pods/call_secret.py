"""The call of a function in a Secret: without it, everyone who may read the job's object would read the arguments."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import replace

from windlass import wire
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.strategic_merge import merge
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER
from windlass.jobs.syntax.yaml_tree import canonical

CALL_PREFIX = "call-"
"""Start of the names of these Secrets."""
_KEY = "call"


def call_of(job: Job) -> str:
    """Returns the call that the ranks of a job carry out; "" for other jobs."""
    return next((role.env[wire.CALL] for role in job.roles if wire.CALL in role.env), "")


def with_call_secret(job: Job, secret: str) -> Job:
    """Returns the job whose pods read the call from the Secret of this name."""
    return replace(job, roles=tuple(_read_by(role, secret) for role in job.roles))


def call_secret(name: str, namespace: str, call: str, owners: Iterable[Manifest] = ()) -> Manifest:
    """Returns the Secret of a call: immutable, and deleted with the last job that owns it."""
    about = {"name": name, "namespace": namespace, "ownerReferences": list(owners)}
    data = {_KEY: base64.b64encode(call.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque", "immutable": True, "data": data}


def _read_by(role: Role, secret: str) -> Role:
    if wire.CALL not in role.env:
        return role
    others = {name: text for name, text in role.env.items() if name != wire.CALL}
    variable = {"name": wire.CALL, "valueFrom": {"secretKeyRef": {"name": secret, "key": _KEY}}}
    below = {"spec": {"containers": [{"name": CONTAINER, "env": [variable]}]}}
    return replace(role, env=others, pod=canonical(merge(below, json.loads(role.pod) if role.pod else {})))
