"""Rules about jobs of several pods: Ray clusters, JobSets, indexed Jobs and MPI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from windlass.core.model.reasons import format_count
from windlass.diagnose.lint.documents import Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import Container
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value

_RAY = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html"
_RAY_JOB = "https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html"
_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_JOB_SET = "https://jobset.sigs.k8s.io/docs/concepts/"
_MPI = "https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/mpi/"
_RAY_KINDS = "RayCluster RayJob RayService"
_PROGRAM = re.compile(r"(?:\S*/)?(?:sleep|tail|python3?|mpirun|mpiexec|torchrun|horovodrun)")
"""Programs that start no SSH server."""
_REFUSED_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "InteractiveMode": ("backoffLimit",),
        "SidecarMode": ("clusterSelector", "submitterPodTemplate", "submitterConfig"),
    }
)
"""Mode of submission of a RayJob → the fields that KubeRay refuses with it."""


def _cluster(document: Document) -> Value:
    """The specification of a Ray cluster."""
    names = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
    return document.spec[names[document.kind]] if document.kind in names else document.spec


def _groups(document: Document) -> list[Value]:
    cluster = _cluster(document)
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"].items]


@rule(RuleSeverity.ERROR, Subject.DOCUMENT, fix="Write the value in quotes.", source=_RAY, kinds=_RAY_KINDS)
def ray_parameter_no_text(document: Document) -> Iterator[Hit]:
    """Parameters of `ray start` are text: the API server refuses a number or boolean."""
    for group in _groups(document):
        for name, value in group["rayStartParams"].fields.items():
            if value.is_scalar and not isinstance(value.plain, str):
                yield value.hit_value(f"{name[:60]}: {value.text[:40]} is not in quotes", f'"{value.text}"')


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Remove num-gpus; KubeRay takes it from the limits.",
    source=_RAY,
    kinds=_RAY_KINDS,
)
def ray_gpus_differ(document: Document) -> Iterator[Hit]:
    """Ray schedules so many GPUs on the pod although its container has another number."""
    for pod in document.pods:
        value = pod.group["rayStartParams"]["num-gpus"]
        gpus = pod.containers[0].gpus if pod.containers else 0
        if gpus and value.text.isdecimal() and int(value.text) not in (0, gpus):  # without GPUs it is a test's own
            yield value.hit(f"num-gpus is {value.text}; the container has {gpus}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write minReplicas <= replicas <= maxReplicas.",
    source=_RAY,
    kinds=_RAY_KINDS,
)
def ray_replicas_out_of_range(document: Document) -> Iterator[Hit]:
    """KubeRay refuses a group whose minimum is above its maximum, and moves a number outside of them."""
    for group in _groups(document)[1:]:
        least, most, count = (group[name].number for name in ("minReplicas", "maxReplicas", "replicas"))
        if least is not None and most is not None and least > most:
            yield group["minReplicas"].hit(f"minReplicas {least} is above maxReplicas {most}")
        elif most is not None and count is not None and count > most:
            yield group["replicas"].hit(f"replicas {count} is above maxReplicas {most}")


@rule(RuleSeverity.WARNING, Subject.DOCUMENT, fix="Write the version of the image.", source=_RAY, kinds=_RAY_KINDS)
def ray_version_differs(document: Document) -> Iterator[Hit]:
    """KubeRay chooses options of `ray start` by rayVersion; those of another version fail or have no effect."""
    version = _cluster(document)["rayVersion"]
    for pod in document.pods:
        image = pod.containers[0].value["image"].text if pod.containers else ""
        found = re.fullmatch(r"rayproject/ray(?:-ml)?:([0-9]+\.[0-9]+\.[0-9]+)(?:[-.].*)?", image)
        if version and found and found[1] != version.text:
            yield version.hit_value(f"rayVersion is {version.text[:20]}; the image is of {found[1]}")
            return


@rule(
    RuleSeverity.ERROR, Subject.DOCUMENT, fix="Write shutdownAfterJobFinishes: true.", source=_RAY_JOB, kinds="RayJob"
)
def ray_ttl_without_shutdown(document: Document) -> Iterator[Hit]:
    """The time to live counts for clusters that are shut down; KubeRay refuses it without that."""
    ttl = document.spec["ttlSecondsAfterFinished"]
    if (ttl.number or 0) > 0 and document.spec["shutdownAfterJobFinishes"].text != "true":
        yield ttl.hit("ttlSecondsAfterFinished without shutdownAfterJobFinishes")


@rule(RuleSeverity.ERROR, Subject.DOCUMENT, fix="Write the name of a replicated job.", source=_JOB_SET, kinds="JobSet")
def jobset_reference_unknown(document: Document) -> Iterator[Hit]:
    """Policies and dependencies name replicated jobs of the same JobSet; its webhook refuses another name."""
    spec = document.spec
    names = [each["name"].text for each in spec["replicatedJobs"].items]
    targets = [spec.at("coordinator", "replicatedJob"), *spec.at("successPolicy", "targetReplicatedJobs").items]
    for each in spec.at("failurePolicy", "rules").items:
        targets += each["targetReplicatedJobs"].items
    targets += [each["name"] for one in spec["replicatedJobs"].items for each in one["dependsOn"].items]
    for target in targets:
        if target and target.text not in names:
            yield target.hit_value(f"there is no replicated job {target.text[:60]!r}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the number of completions.",
    source=f"{_JOB}#completion-mode",
    kinds="Job",
)
def indexed_without_completions(document: Document) -> Iterator[Hit]:
    """An indexed Job has a fixed number of pods; the API server refuses it without completions."""
    mode = document.spec["completionMode"]
    if document.group == "batch" and mode.text == "Indexed" and not document.spec["completions"]:
        yield mode.hit("completionMode: Indexed without completions")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write completionMode: Indexed.",
    source=f"{_JOB}#completion-mode",
    kinds="Job",
)
def index_without_indexed_mode(container: Container) -> Iterator[Hit]:
    """Only an indexed Job sets JOB_COMPLETION_INDEX; elsewhere it is empty, and every rank is the same."""
    root = container.pod.root
    is_used = (
        any("JOB_COMPLETION_INDEX" in word for word in container.line) and "JOB_COMPLETION_INDEX" not in container.env
    )
    if is_used and root["apiVersion"].text.startswith("batch/") and root["spec"]["completionMode"].text != "Indexed":
        yield container.value["command"].hit("JOB_COMPLETION_INDEX in a Job that is not indexed")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Lower -np, or raise the replicas or slotsPerWorker.",
    source=_MPI,
    kinds="MPIJob",
)
def mpi_ranks_exceed_slots(document: Document) -> Iterator[Hit]:
    """The command mpirun refuses more ranks than the workers have slots, unless it may oversubscribe them."""
    specs = document.spec["mpiReplicaSpecs"]
    slots = document.spec["slotsPerWorker"].number or 1
    workers = [pod for pod in document.pods if pod.role == "Worker"]
    launcher = next((pod for pod in document.pods if pod.role == "Launcher"), None)
    for container in launcher.containers if launcher and workers else ():
        line = " ".join(container.words)
        found = re.search(r"\s-{1,2}np?\s+([0-9]+)(?:\s|$)", line)
        total = slots * (workers[0].replicas + (document.spec["runLauncherAsWorker"].text == "true"))
        if found and int(found[1]) > total and "oversubscribe" not in line and "mpirun" in line and specs:
            yield container.value["command"].hit(f"mpirun starts {found[1]} ranks; there are {total} slots")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Lower slotsPerWorker to the GPUs of a worker, or raise its limit of GPUs.",
    source=_MPI,
    kinds="MPIJob",
)
def mpi_slots_exceed_gpus(document: Document) -> Iterator[Hit]:
    """The command mpirun starts a rank on each slot: ranks beyond the GPUs of a worker fail, or share one."""
    for slots, gpus in _slots_and_gpus(document):
        if slots.number and slots.number > gpus:
            message = f"slotsPerWorker is {slots.text[:9]}; a worker has {format_count(gpus, 'GPU')}"
            fix = f"Write slotsPerWorker: {gpus}, or raise the limit of GPUs of a worker."
            yield slots.hit_value(message, fix=fix)


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write slotsPerWorker: the GPUs of a worker.",
    source=_MPI,
    kinds="MPIJob",
)
def mpi_slots_below_gpus(document: Document) -> Iterator[Hit]:
    """The command mpirun starts no more ranks than there are slots: GPUs beyond them stay idle."""
    for slots, gpus in _slots_and_gpus(document):
        if slots.number and slots.number < gpus:
            message = f"slotsPerWorker is {slots.text[:9]}; a worker has {format_count(gpus, 'GPU')}"
            yield slots.hit_value(message, fix=f"Write slotsPerWorker: {gpus}.")


def _slots_and_gpus(document: Document) -> Iterator[tuple[Value, int]]:
    """The field slotsPerWorker, and the GPUs of a worker that has some."""
    for pod in document.pods:
        gpus = max((each.gpus for each in pod.containers), default=0)
        if pod.role == "Worker" and gpus:
            yield document.spec["slotsPerWorker"], gpus


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Remove the command; the operator starts /usr/sbin/sshd. Write the program behind mpirun in the launcher.",
    source="https://github.com/kubeflow/mpi-operator/issues/472",
    kinds="MPIJob",
)
def mpi_worker_without_sshd(container: Container) -> Iterator[Hit]:
    """The launcher reaches a worker by SSH: a command of its own replaces the server, and mpirun cannot connect."""
    words = container.words
    is_worker = container.pod.role == "Worker" and container.pod.root["apiVersion"].text == "kubeflow.org/v2beta1"
    has_server = any("sshd" in word for word in (*words, *container.line))
    if is_worker and words and container.value["command"] and not has_server and _PROGRAM.fullmatch(words[0]):
        yield container.value["command"].hit(f"a worker runs {words[0][:40]} in place of sshd")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix=r"""Write '"{\"NPU\": 1}"': JSON in double quotes with escapes, in single quotes.""",
    source="https://github.com/ray-project/kuberay/issues/1984",
    kinds=_RAY_KINDS,
)
def ray_resources_unquoted(document: Document) -> Iterator[Hit]:
    """KubeRay writes the value into a shell command: without quotes of its own `ray start` gets it in pieces."""
    for group in _groups(document):
        value = group["rayStartParams"]["resources"]
        if re.fullmatch(r"\s*\{.*\}\s*", value.text):
            yield value.hit_value(f"resources: {value.text[:60]} has no quotes for the shell")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write a limit of cpu for the first container of the group, or num-cpus.",
    source="https://github.com/ray-project/kuberay/issues/1943",
    kinds=_RAY_KINDS,
)
def ray_cpus_unknown(document: Document) -> Iterator[Hit]:
    """The autoscaler needs the CPUs of each group: it stops without them, and the head restarts for ever."""
    if _cluster(document)["enableInTreeAutoscaling"].text != "true":
        return
    for pod in document.pods:
        first = pod.containers[0] if pod.containers else None
        if first and not {"cpu"} & {*first.limits, *first.requests} and not pod.group["rayStartParams"]["num-cpus"]:
            name = pod.role or "head"
            yield first.value.hit(f"the group {name[:60]!r} has neither cpu nor num-cpus, with an autoscaler")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Keep one of the two fields.",
    source="https://github.com/ray-project/kuberay/blob/v1.5.0/ray-operator/controllers/ray/utils/validation.go",
    kinds="RayJob",
)
def ray_job_fields_conflict(document: Document) -> Iterator[Hit]:
    """KubeRay refuses a RayJob whose fields contradict each other."""
    spec = document.spec
    mode, suspend = spec["submissionMode"].text, spec["suspend"]
    if suspend.text == "true" and spec["shutdownAfterJobFinishes"].text != "true":
        yield suspend.hit("suspend without shutdownAfterJobFinishes", fix="Write shutdownAfterJobFinishes: true.")
    if suspend.text == "true" and spec["clusterSelector"]:
        yield suspend.hit("suspend with a clusterSelector")
    if spec.is_map and not spec["rayClusterSpec"] and not spec["clusterSelector"]:
        yield spec.hit("neither rayClusterSpec nor clusterSelector", fix="Write one of the two fields.")
    for name in _REFUSED_FIELDS.get(mode, ()):
        if spec[name]:
            yield spec[name].hit(f"{name} with submissionMode {mode}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Remove the selector; the job's controller writes its own.",
    source=f"{_JOB}#specifying-your-own-pod-selector",
    kinds="Job",
)
def job_selector_set(document: Document) -> Iterator[Hit]:
    """The API server writes the selector of a Job, and refuses one that is written without manualSelector."""
    selector = document.spec["selector"]
    if document.group == "batch" and selector and document.spec["manualSelector"].text != "true":
        yield selector.hit("a selector without manualSelector: true")


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Give the container the name of the notebook.",
    source="https://github.com/kubeflow/kubeflow/blob/master/components/notebook-controller/controllers/notebook_controller.go",
    kinds="Notebook",
)
def notebook_container_name(document: Document) -> Iterator[Hit]:
    """The controller reads the state of the container that has the notebook's name: without it no state is shown."""
    containers = [each.value["name"] for pod in document.pods for each in pod.containers]
    names = [each.text for each in containers]
    if document.name and all(names) and names and document.name not in names:
        yield containers[0].hit_value(f"no container has the name of the notebook {document.name[:60]!r}")
