"""Code shipped with a job: a folder as one archive, the object that holds it, and pods that unpack it.

Equal folders make equal archives on every machine and at any time: the object is named by a hash of its content.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from windlass.core.model.job import Job, Role
from windlass.core.model.resources import format_bytes
from windlass.jobs.kubernetes.labels import OURS
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.container_security import UNPRIVILEGED
from windlass.jobs.kubernetes.pods.strategic_merge import merge
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER
from windlass.jobs.syntax.yaml_tree import canonical

MOUNT_PATH = "/windlass/code"
"""Path of the folder in every pod of the job."""
MAX_ARCHIVE_BYTES = 1 << 20
"""Bytes that a ConfigMap may hold (MaxSecretSize in k8s.io/api/core/v1)."""
CODE_LABEL = f"{OURS}code"
"""The label of objects that hold code; its value is the hash."""
CODE_PREFIX = "code-"
"""Start of the names of these objects."""
KEY = "code.tar.gz"
_PACKED = "/windlass/packed"
_DATE = 315_532_800
"""1980, in seconds since the epoch: zip archives, which builds may make of these files, have no earlier dates."""
_UNPACK = (
    "if command -v tar >/dev/null 2>&1 && command -v gzip >/dev/null 2>&1; "
    f"then exec tar -xzf {_PACKED}/{KEY} -C {MOUNT_PATH}; "
    f"else exec python3 -m tarfile -e {_PACKED}/{KEY} {MOUNT_PATH}; fi"
)
_MAX_LISTED = 5
"""Maximum number of files that an error about a large archive or folder lists."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of the shipped folder. `path` is relative to the folder, with slashes."""

    path: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """A folder as one archive. `sizes`: bytes of each file before packing, by path."""

    archive: bytes
    sizes: dict[str, int]

    @property
    def digest(self) -> str:
        """A short hash of the archive."""
        return hashlib.sha256(self.archive).hexdigest()[:16]

    @property
    def name(self) -> str:
        """Name of the object that holds it."""
        return f"{CODE_PREFIX}{self.digest}"


def pack(files: Iterable[File]) -> CodeArchive:
    """The archive of some files: in the order of their names, without an owner, with one date."""
    ordered = sorted(files, key=lambda file: file.path)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in ordered:
            entry = tarfile.TarInfo(file.path)
            entry.size, entry.mtime = len(file.content), _DATE
            entry.mode = 0o755 if file.executable else 0o644
            archive.addfile(entry, io.BytesIO(file.content))
    return CodeArchive(gzip.compress(raw.getvalue(), mtime=0), {file.path: len(file.content) for file in ordered})


def size_fault(packed: CodeArchive, limit: int = MAX_ARCHIVE_BYTES) -> str:
    """The reason why the archive cannot be shipped, with its largest files; "" if it can."""
    if len(packed.archive) <= limit:
        return ""
    found, excess = format_bytes(len(packed.archive)), format_bytes(len(packed.archive) - limit)
    largest = describe_largest_files(packed.sizes)
    return f"the code is {found} packed, {excess} above the limit of {format_bytes(limit)}; {largest}"


def describe_largest_files(sizes: dict[str, int]) -> str:
    """The files that make a folder large, in words."""
    first = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:_MAX_LISTED]
    return "largest: " + ", ".join(f"{path} {format_bytes(count)}" for path, count in first)


def config_map(packed: CodeArchive, namespace: str = "", owners: Sequence[Manifest] = ()) -> Manifest:
    """The ConfigMap that holds the archive: immutable, and deleted with the last job that owns it."""
    about: Manifest = {"name": packed.name, "labels": {CODE_LABEL: packed.digest}}
    if namespace:
        about["namespace"] = namespace
    if owners:
        about["ownerReferences"] = list(owners)
    held = {KEY: base64.b64encode(packed.archive).decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "immutable": True, "binaryData": held}


def with_code(job: Job, packed: CodeArchive, workdir: PurePosixPath | None = None) -> Job:
    """The job with the code unpacked before each of its programs starts, in the folder `workdir` of it."""
    folder = str(PurePosixPath(MOUNT_PATH, workdir or "."))
    roles = tuple(replace(role, pod=_pod(role, packed, folder)) for role in job.roles)
    return replace(job, roles=roles, workdir="")


def image_of(role: Role) -> str:
    """The image of a role's program, from either field; "" if none is written."""
    spec = (json.loads(role.pod).get("spec") or {}) if role.pod else {}
    written = [each for each in spec.get("containers") or [] if each.get("name") == CONTAINER]
    return next((str(each["image"]) for each in written if each.get("image")), role.image)


def _security(role: Role) -> dict[str, Any]:
    """The security context of the container that unpacks: that of the standard `restricted`, as the program's user.

    The standard asks for `runAsNonRoot`, too, which only the author of the image can promise.
    """
    spec = (json.loads(role.pod).get("spec") or {}) if role.pod else {}
    main: dict[str, Any] = next((each for each in spec.get("containers") or [] if each.get("name") == CONTAINER), {})
    written = main.get("securityContext") or {}
    return {
        **{name: written[name] for name in ("runAsNonRoot", "runAsUser", "runAsGroup") if name in written},
        **UNPRIVILEGED,
        "readOnlyRootFilesystem": True,
    }


def _pod(role: Role, packed: CodeArchive, workdir: str) -> str:
    """The role's `pod`, over the parts for the code: a volume, the container that fills it, and its mount."""
    code = {"name": "windlass-code", "mountPath": MOUNT_PATH}
    fills = {
        "name": "windlass-code",
        "image": image_of(role),
        "command": ["sh", "-c", _UNPACK],
        "volumeMounts": [{"name": "windlass-packed", "mountPath": _PACKED, "readOnly": True}, code],
        "securityContext": _security(role),
    }
    volumes = [
        {"name": "windlass-packed", "configMap": {"name": packed.name}},
        {"name": "windlass-code", "emptyDir": {}},
    ]
    main = {"name": CONTAINER, "workingDir": workdir, "volumeMounts": [code]}
    below = {"spec": {"initContainers": [fills], "containers": [main], "volumes": volumes}}
    return canonical(merge(below, json.loads(role.pod) if role.pod else {}))
