"""Rules about the volumes of pods and about claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from windlass.diagnose.lint.documents import Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.jobs.kubernetes.pods.quantities import amount
from windlass.jobs.syntax.names import close_name

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/volumes/"
_CLAIMS = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_SHM = "/dev/shm"  # noqa: S108 - a path of containers
_KINDS = "configMap secret projected downwardAPI"
_MAX_MODE = 0o777
_MAX_COMPARED = 30
"""Number of names that a misspelt one is compared with."""
_CHECKPOINT = re.compile(r"(?i)checkpoint|ckpt")


def _volumes(pod: PodTemplate) -> dict[str, Value]:
    """Volumes of a pod by name, those of a StatefulSet's claim templates included."""
    claims = [each["metadata"] for each in pod.root.at("spec", "volumeClaimTemplates").items]
    tasks = [each for each in pod.root.at("spec", "volumes").items if each["volumeClaimName"] or each["volumeClaim"]]
    return {each["name"].text: each for each in (*pod.spec["volumes"].items, *claims, *tasks)}


@rule(RuleSeverity.ERROR, Subject.POD, fix="Add the volume to the pod, or correct the name.", source=_VOLUMES)
def volume_mount_unknown(pod: PodTemplate) -> Iterator[Hit]:
    """A mount names a volume of its pod; the API server refuses the pod."""
    unknown = _unknown_mounts(pod)
    meant = _meant_volumes(pod, unknown)
    for name in unknown:
        message, right = f"the pod has no volume {name.text[:60]!r}", meant.get(name.text)
        if right:
            yield name.hit_value(f"{message}; did you mean {right[:60]!r}?", right, fix=f"Write {right[:60]}.")
        else:
            yield name.hit_value(message)


def _unknown_mounts(pod: PodTemplate) -> list[Value]:
    """The names of mounts that are no volume of the pod."""
    volumes = _volumes(pod)
    mounts = [each["name"] for one in pod.all_containers for each in one.value["volumeMounts"].items]
    return [each for each in mounts if each.text not in volumes and "$" not in each.text and not pod.is_patch]


def _meant_volumes(pod: PodTemplate, unknown: Sequence[Value]) -> dict[str, str]:
    """Unknown name of a mount → the volume that it misspells: one that nothing mounts, and the only close one."""
    volumes, names = list(_volumes(pod)), {each.text for each in unknown}
    if not names or max(len(volumes), len(names)) > _MAX_COMPARED:
        return {}
    used = _used_volumes(pod)
    near = {name: close_name(name, volumes) for name in names}
    return {name: right for name, right in near.items() if right and right not in used}


def _used_volumes(pod: PodTemplate) -> set[str]:
    """The names of volumes that containers mount."""
    kinds = ("volumeMounts", "volumeDevices")
    return {each["name"].text for one in pod.all_containers for kind in kinds for each in one.value[kind].items}


@rule(RuleSeverity.ERROR, Subject.POD, fix="Rename one of the two, or remove it.", source=_VOLUMES)
def volume_twice(pod: PodTemplate) -> Iterator[Hit]:
    """The names of volumes are unique in a pod; the API server refuses the pod."""
    seen = set[str]()
    for volume in pod.spec["volumes"].items:
        name = volume["name"]
        if name.text in seen:
            yield name.hit_value(f"two volumes are called {name.text[:60]!r}")
        seen.add(name.text)


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Mount one of the two elsewhere.", source=_VOLUMES)
def mount_path_twice(container: Container) -> Iterator[Hit]:
    """Each path of a container has one mount; the API server refuses the pod."""
    seen = set[str]()
    for mount in container.value["volumeMounts"].items:
        path = mount["mountPath"]
        if path and path.text in seen:
            yield path.hit_value(f"two volumes are mounted at {path.text[:60]}")
        seen.add(path.text)


@rule(RuleSeverity.WARNING, Subject.POD, fix="Mount the volume, or remove it.", source=_VOLUMES)
def volume_unused(pod: PodTemplate) -> Iterator[Hit]:
    """No container mounts the volume, so its content is missing where the program looks for it."""
    used = _used_volumes(pod) | set(_meant_volumes(pod, _unknown_mounts(pod)).values())
    if not used or pod.is_patch or any(not container.value["image"] for container in pod.containers):
        return  # nothing is mounted: the operator mounts it
    for volume in pod.spec["volumes"].items:
        name = volume["name"]
        if name.text not in used and not name.text.startswith("gke-gcsfuse-"):  # a sidecar of GKE mounts these
            yield name.hit(f"no container mounts the volume {name.text[:60]!r}")


@rule(
    RuleSeverity.WARNING, Subject.CONTAINER, fix="Write medium: Memory in the emptyDir.", source=f"{_VOLUMES}#emptydir"
)
def shared_memory_on_disk(container: Container) -> Iterator[Hit]:
    """An emptyDir without a medium is on the node's disk: collectives over /dev/shm become as slow as it."""
    for volume in _shared_memory(container):
        directory = volume["emptyDir"]
        if "emptyDir" in volume.fields and directory["medium"].text not in ("Memory", "HugePages"):
            yield volume["name"].hit(f"the volume {volume['name'].text[:60]!r} at {_SHM} is on disk")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Raise the memory limit above sizeLimit plus the program's own memory.",
    source=f"{_VOLUMES}#emptydir",
)
def shared_memory_above_limit(container: Container) -> Iterator[Hit]:
    """Files in a memory volume count as the container's memory: it is OOM-killed before the volume is full."""
    limit = container.limits.get("memory")
    for volume in _shared_memory(container):
        size = volume.at("emptyDir", "sizeLimit")
        if limit and size and volume.at("emptyDir", "medium").text == "Memory" and 0 < _bytes(limit) <= _bytes(size):
            yield size.hit_value(f"sizeLimit {size.text} with a memory limit of {limit.text}")


@rule(
    RuleSeverity.INFO,
    Subject.CONTAINER,
    fix="Write sizeLimit in the emptyDir, or a memory limit of the container.",
    source=f"{_VOLUMES}#emptydir",
)
def shared_memory_unlimited(container: Container) -> Iterator[Hit]:
    """Without a limit files at /dev/shm fill the memory of the node, and the kubelet evicts other pods."""
    for volume in _shared_memory(container):
        directory = volume["emptyDir"]
        is_limited = directory["sizeLimit"] or container.limits.get("memory")
        if directory["medium"].text == "Memory" and container.gpus and not is_limited:
            yield volume["name"].hit(f"the volume {volume['name'].text[:60]!r} at {_SHM} has no limit")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Mount an emptyDir with medium: Memory instead.",
    source=f"{_VOLUMES}#hostpath",
)
def shared_memory_of_node(pod: PodTemplate) -> Iterator[Hit]:
    """All pods of the node then share one /dev/shm: files of ended ranks fill it until the node restarts."""
    for volume in pod.spec["volumes"].items if pod.kind != "DaemonSet" else ():
        path = volume.at("hostPath", "path")
        if path.text.rstrip("/") == _SHM:
            yield path.hit_value(f"the volume {volume['name'].text[:60]!r} is {_SHM} of the node")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Write checkpoints to a persistentVolumeClaim or to object storage.",
    source=f"{_VOLUMES}#emptydir",
)
def checkpoint_on_empty_dir(container: Container) -> Iterator[Hit]:
    """An emptyDir ends with its pod: a restarted pod begins without a checkpoint."""
    volumes = _volumes(container.pod)
    for mount in container.value["volumeMounts"].items:
        path, volume = mount["mountPath"].text.rstrip("/"), volumes.get(mount["name"].text)
        is_temporary = volume is not None and "emptyDir" in volume.fields and path not in ("", _SHM)
        if is_temporary and (_CHECKPOINT.search(path) or _is_written_to(container.words, path)):
            yield mount["mountPath"].hit_value(f"{path[:60]} is an emptyDir")


def _is_written_to(words: list[str], path: str) -> bool:
    """Tells whether an option of the command line puts checkpoints below a path."""
    found = re.findall(r"--[a-z_-]*(?:checkpoint|ckpt)[a-z_-]*(?:dir|path|folder)[= ](/\S+)", " ".join(words))
    return any(each == path or each.startswith(f"{path}/") for each in found)


def _shared_memory(container: Container) -> Iterator[Value]:
    volumes = _volumes(container.pod)
    for mount in container.value["volumeMounts"].items:
        if mount["mountPath"].text.rstrip("/") == _SHM and mount["name"].text in volumes:
            yield volumes[mount["name"].text]


def _bytes(value: Value) -> int:
    try:
        return amount("memory", value.plain)
    except ValueError:
        return 0


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write the mode in octal: 0755, or 493.",
    source="https://kubernetes.io/docs/concepts/configuration/configmap/",
)
def file_mode_decimal(pod: PodTemplate) -> Iterator[Hit]:
    """A mode without a leading zero is decimal: 755 is above 0777, and the API server refuses it."""
    for volume in pod.spec["volumes"].items:
        for kind in _KINDS.split():
            modes = [volume.at(kind, "defaultMode"), *(each["mode"] for each in volume.at(kind, "items").items)]
            for mode in modes:
                if re.fullmatch("[1-9][0-7]{2}", mode.text) and int(mode.text) > _MAX_MODE:
                    yield mode.hit_value(f"the mode {mode.text} is decimal", f"0{mode.text}")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write defaultMode: 0755 in the volume, or start the script with its interpreter.",
    source="https://kubernetes.io/docs/concepts/configuration/configmap/",
)
def mounted_script_not_executable(container: Container) -> Iterator[Hit]:
    """Files of a ConfigMap or Secret have mode 0644, so that starting one fails with permission denied."""
    command, volumes = container.value["command"], _volumes(container.pod)
    program = (container.value["command"].texts or [""])[0]
    for mount in container.value["volumeMounts"].items:
        volume, path = volumes.get(mount["name"].text), mount["mountPath"].text.rstrip("/")
        for kind in ("configMap", "secret") if volume else ():
            assert volume is not None  # noqa: S101 - the line above says so
            if volume[kind].is_map and path and (program.startswith(f"{path}/") or program == path):
                written = [volume.at(kind, "defaultMode"), *(each["mode"] for each in volume.at(kind, "items").items)]
                if not any(_is_executable(mode.text) for mode in written):
                    yield command.hit(f"{program[:60]} is a file of a {kind} without the executable bit")


def _is_executable(mode: str) -> bool:
    return mode.isdecimal() and bool(int(mode, 8 if mode.startswith("0") else 10) & 0o111)


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix=f"Write one of {', '.join(_MODES)}.",
    source=f"{_CLAIMS}#access-modes",
    kinds="PersistentVolumeClaim PersistentVolume",
)
def access_mode_unknown(document: Document) -> Iterator[Hit]:
    """The API server refuses an access mode that it does not know."""
    for mode in document.spec["accessModes"].items:
        if mode.text not in _MODES and "$" not in mode.text:
            short = {"RWO": _MODES[0], "ROX": _MODES[1], "RWX": _MODES[2], "RWOP": _MODES[3]}.get(mode.text)
            hit = mode.hit_word(f"accessModes: {mode.text[:40]!r} is no access mode", _MODES)
            yield replace(hit, replacement=short) if short else hit


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write accessModes and resources.requests.storage.",
    source=f"{_CLAIMS}#persistentvolumeclaims",
    kinds="PersistentVolumeClaim",
)
def claim_incomplete(document: Document) -> Iterator[Hit]:
    """The API server refuses a claim without access modes or without a size."""
    if document.spec.is_map and not document.spec["accessModes"].items:
        yield document.spec.hit("spec.accessModes is missing")
    if document.spec.is_map and not document.spec.at("resources", "requests", "storage"):
        yield document.spec.hit("spec.resources.requests.storage is missing")
