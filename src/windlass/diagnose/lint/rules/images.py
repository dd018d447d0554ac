"""Rules about images: names, pull policies, tags that differ between ranks, and images of CUDA without a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.diagnose.lint.documents import Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import RAY_KINDS, Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule

_IMAGES = "https://kubernetes.io/docs/concepts/containers/images/"
_IMAGE = re.compile(
    r"[a-zA-Z0-9][-a-zA-Z0-9.]*(:[0-9]+)?(/[-a-z0-9._]+)+(:[\w][-\w.]{0,127})?(@[a-z0-9+._-]+:[0-9a-fA-F]+)?"
    r"|[a-z0-9][-a-z0-9._]*(:[\w][-\w.]{0,127})?(@[a-z0-9+._-]+:[0-9a-fA-F]+)?"
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_CUDA_IMAGE = re.compile(r"(?:docker\.io/)?nvidia/cuda[:@]|nvcr\.io/nvidia/(?:cuda|pytorch|tensorflow|nemo|jax)[:@]")
_DEVICE = re.compile(r"(?:nvidia|amd|gpu\.intel|habana|aws\.amazon|google)\.\w+/|volcano\.sh/|.*gpu")


def _parts(image: str) -> tuple[str, str]:
    """Repository and tag or digest of an image; "latest" if it names none."""
    name, at, digest = image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, "latest"
    return repository, digest if at else tag


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write the image.",
    source=_IMAGES,
)
def image_missing(container: Container) -> Iterator[Hit]:
    """A container of a pod needs an image; the API server refuses the pod."""
    if (
        container.pod.kind in ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Notebook")
        and not container.value["image"]
        and not container.pod.is_patch
    ):
        yield container.value.hit(f"the container {container.value['name'].text[:60]!r} has no image")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write registry/path:tag, the path in small letters.",
    source=f"{_IMAGES}#image-names",
)
def image_malformed(container: Container) -> Iterator[Hit]:
    """The runtime cannot parse the name: the pod stays at InvalidImageName."""
    image = container.value["image"]
    if image and not _is_placeholder(image.text) and not _IMAGE.fullmatch(image.text):
        yield image.hit_value(f"{image.text[:80]!r} is no name of an image")


def _is_placeholder(text: str) -> bool:
    """Tells whether a tool or a person fills in the image: ${IMAGE}, <image>, FILLED BY THE OPERATOR."""
    return any(mark in text for mark in "${<") or re.fullmatch(r"[A-Z]+[A-Z_ -]*", text) is not None


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write Always, IfNotPresent or Never.",
    source=f"{_IMAGES}#image-pull-policy",
)
def image_pull_policy_unknown(container: Container) -> Iterator[Hit]:
    """The API server refuses another policy; the words are case-sensitive."""
    policy = container.value["imagePullPolicy"]
    if policy and policy.text not in _PULL_POLICIES and "$" not in policy.text:
        yield policy.hit_word(f"imagePullPolicy: {policy.text[:40]!r} is no policy", _PULL_POLICIES)


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Write a tag that does not move, or a digest; or imagePullPolicy: Always.",
    source=f"{_IMAGES}#image-pull-policy",
)
def image_of_each_node(container: Container) -> Iterator[Hit]:
    """A node keeps what it pulled as latest before: ranks on different nodes run different versions."""
    image, policy = container.value["image"], container.value["imagePullPolicy"].text
    is_moving = bool(image) and "$" not in image.text and _parts(image.text)[1] == "latest"
    if container.pod.is_gang and is_moving and policy == "IfNotPresent":
        yield image.hit_value(f"{image.text[:80]} may be another image on each node")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write the same tag or digest in all roles.",
    source=_IMAGES,
    kinds="PyTorchJob TFJob JAXJob XGBoostJob PaddleJob MPIJob JobSet",
)
def images_differ(document: Document) -> Iterator[Hit]:
    """Ranks of one job talk to each other: different versions of NCCL, MPI or the program do not understand it."""
    first = dict[str, str]()
    for pod in document.pods:
        for container in pod.containers[:1]:
            image = container.value["image"]
            repository, tag = _parts(image.text)
            if image and "$" not in image.text and first.setdefault(repository, tag) != tag:
                other = f"another role runs the tag {first[repository][:40]}"
                yield image.hit_value(f"{pod.role[:40]} runs {repository[:60]} of the tag {tag[:40]}; {other}")


@rule(
    RuleSeverity.INFO,
    Subject.POD,
    fix="Request nvidia.com/gpu under limits, or use an image without CUDA.",
    source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
)
def image_without_gpu(pod: PodTemplate) -> Iterator[Hit]:
    """A container without a device sees no GPU, so that a program of CUDA fails or runs on the CPU."""
    requested = [name for each in pod.all_containers for name in (*each.limits, *each.requests)]
    claims = pod.spec["resourceClaims"] or pod.spec["runtimeClassName"] or pod.template["metadata"]["annotations"]
    is_helper = pod.kind in RAY_KINDS or pod.kind == "DaemonSet" or pod.role == "Launcher" or pod.is_patch
    if is_helper or claims or any(_DEVICE.match(name) for name in requested):
        return
    for container in pod.containers:
        image = container.value["image"]
        if _CUDA_IMAGE.match(image.text):
            yield image.hit_value(f"{image.text[:80]} without a GPU")
