"""The objects of a notebook in a cluster: additions to its pod, and the Secret with its token. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.labels import USER
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER
from windlass.jobs.syntax.durations import format_duration
from windlass.jupyter.folder import MODULE, is_token

PORT = 8888
"""Port of JupyterLab on the pod's loopback address: no other pod reaches it, only a forwarded port does."""
_FOLDER, _TOKENS = "/var/lib/windlass-notebook", "/run/windlass-notebook"
_TOKEN_KEY = "token"  # noqa: S105 - the name of a field
_FILES, _SECRET, _SHM = "notebook", "notebook-token", "notebook-shm"
_LONGEST_SUFFIX = 20
_ANY_USER_READS = 0o444
"""The image decides on the user of the pod's one container, and only that container has the file."""

Manifest = dict[str, Any]


def server_command(idle_ms: int) -> tuple[str, ...]:
    """The command of the pod. The token is in a file of it, not in the command."""
    words = ("--folder", _FOLDER, "--token", f"{_TOKENS}/{_TOKEN_KEY}", "--port", str(PORT))
    return ("python", "-m", MODULE, *words, "--idle", f"{idle_ms / 1000:g}")


def in_pod(notebook: Submission, secret: str, claim: str) -> Submission:
    """The notebook with its volumes: token, files and shared memory. `claim`: a volume claim for the files, or ""."""
    files = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
    volumes = [
        {"name": _FILES, **files},
        {"name": _SECRET, "secret": {"secretName": secret, "defaultMode": _ANY_USER_READS}},
        {"name": _SHM, "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [
        {"name": _FILES, "mountPath": _FOLDER},
        {"name": _SECRET, "mountPath": _TOKENS, "readOnly": True},
        {"name": _SHM, "mountPath": "/dev/shm"},  # noqa: S108 - of the pod
    ]
    pod = json.dumps({"spec": {"volumes": volumes, "containers": [{"name": CONTAINER, "volumeMounts": mounts}]}})
    roles = tuple(replace(role, pod=pod) for role in notebook.job.roles)
    return replace(notebook, job=replace(notebook.job, roles=roles))


def token_secret(name: str, owner: Mapping[str, Any], token: str) -> Manifest:
    """The Secret with the token, which is deleted with the notebook's object `owner`."""
    about = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": about["name"], "uid": about["uid"]}
    metadata = {"name": name, "namespace": about["namespace"], "ownerReferences": [reference]}
    data = {_TOKEN_KEY: base64.b64encode(token.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def default_name(user: str) -> str:
    """The name of a user's notebook without --name: a namespace is shared, so it contains the user's name."""
    suffix = re.sub("[^a-z0-9]+", "-", user.lower())[:_LONGEST_SUFFIX].strip("-")
    return f"notebook-{suffix}" if suffix else "notebook"


def is_of_user(job: Mapping[str, Any], user: str) -> bool:
    """Whether a user has submitted a job. `user`: as the API server knows it; "" for an unknown one, who has none."""
    return bool(user) and (job["metadata"].get("annotations") or {}).get(USER) == user


def secret_of(job: Mapping[str, Any]) -> str:
    """The name of the Secret in the object of a notebook; "" if the object is no notebook, whatever it holds."""
    match job:
        case {"spec": {"pod": {"spec": {"volumes": [*volumes]}}}}:
            return next(filter(None, map(_token_volume, volumes)), "")
    return ""


def _token_volume(volume: object) -> str:
    match volume:
        case {"name": str(name), "secret": {"secretName": str(secret)}} if name == _SECRET:
            return secret
    return ""


def token_in(secret: Mapping[str, Any]) -> str:
    """The token in a Secret. Raises ValueError for a Secret without one, or with other text in its place."""
    try:
        token = base64.b64decode(secret["data"][_TOKEN_KEY], validate=True).decode()
    except (KeyError, TypeError) as error:
        raise ValueError(f"the Secret has no field {_TOKEN_KEY}") from error
    if not is_token(token):
        raise ValueError(f"the field {_TOKEN_KEY} of the Secret holds no token of a notebook")
    return token


def kept_files(claim: str, idle_ms: int) -> str:
    """A sentence about the end of the notebook and its files."""
    end = f"it ends after {format_duration(idle_ms)} without activity" if idle_ms else "it does not end by itself"
    where = f"its files are in the claim {claim}" if claim else "its files end with the pod; --claim keeps them"
    return f"{end}, {where}"
