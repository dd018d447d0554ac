"""Rules about queues: Kueue's quotas and labels, Volcano's jobs and queues."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.lint.documents import Document, Documents
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value

_KUEUE = "https://kueue.sigs.k8s.io/docs/concepts"
_CLUSTER_QUEUE = f"{_KUEUE}/cluster_queue/"
_VOLCANO = "https://volcano.sh/en/docs/vcjob/"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_JOBS = "Job JobSet PyTorchJob TFJob JAXJob XGBoostJob PaddleJob MPIJob RayJob RayCluster TrainJob"


def _groups(document: Document) -> list[Value]:
    return document.spec["resourceGroups"].items


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="List the same resources in the same order in coveredResources and in each flavor.",
    source=f"{_CLUSTER_QUEUE}#flavors-and-resources",
    kinds="ClusterQueue",
)
def kueue_resources_differ(document: Document) -> Iterator[Hit]:
    """Each flavor has a quota for every covered resource, in their order; Kueue's webhook refuses the queue."""
    for group in _groups(document):
        covered = group["coveredResources"].texts
        for flavor in group["flavors"].items:
            listed = [each["name"].text for each in flavor["resources"].items]
            if listed != covered:
                yield flavor["resources"].hit(f"the flavor {flavor['name'].text[:60]!r} lists {', '.join(listed)[:80]}")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Put the resource into one group.",
    source=f"{_CLUSTER_QUEUE}#resource-groups",
    kinds="ClusterQueue",
)
def kueue_resource_in_two_groups(document: Document) -> Iterator[Hit]:
    """A resource belongs to one group; Kueue's webhook refuses the queue."""
    seen = set[str]()
    for group in _groups(document):
        for resource in group["coveredResources"].items:
            if resource.text in seen:
                yield resource.hit_value(f"{resource.text[:60]} is in two groups")
            seen.add(resource.text)


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the cohort of the queue, or remove the limit.",
    source=f"{_CLUSTER_QUEUE}#cohort",
    kinds="ClusterQueue",
)
def kueue_limit_without_cohort(document: Document) -> Iterator[Hit]:
    """Quota is borrowed and lent within a cohort; Kueue's webhook refuses a limit without one."""
    if document.spec["cohort"] or document.spec["cohortName"]:
        return
    for group in _groups(document):
        for flavor in group["flavors"].items:
            for resource in flavor["resources"].items:
                for name in ("borrowingLimit", "lendingLimit"):
                    if resource[name]:
                        yield resource[name].hit(f"{name} in a queue without a cohort")


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Write the name of the object, or add it.",
    source=f"{_KUEUE}/local_queue/",
)
def kueue_reference_unknown(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """A queue that names a missing queue or flavor is inactive, so that its workloads wait."""
    files = {(each.text.source, each.kind) for each in documents.of("ClusterQueue", "ResourceFlavor")}
    for document in documents.of("LocalQueue", "ClusterQueue"):
        if document.kind == "LocalQueue":
            kind, names = "ClusterQueue", [document.spec["clusterQueue"]]
        else:
            flavors = [each for group in _groups(document) for each in group["flavors"].items]
            kind, names = "ResourceFlavor", [each["name"] for each in flavors]
        is_complete = (document.text.source, kind) in files  # objects of this kind may be in other files otherwise
        for name in names if is_complete else ():
            if name and not documents.named(kind, name.text):
                yield document, name.hit_value(f"there is no {kind} {name.text[:60]!r} in the input")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write the label into the metadata of the job.",
    source="https://kueue.sigs.k8s.io/docs/tasks/run/jobs/",
    kinds=_JOBS,
)
def kueue_label_in_template(document: Document) -> Iterator[Hit]:
    """Kueue reads the queue of a job from the job's own labels: with the label in the template it has no quota."""
    if document.root.at("metadata", "labels")[_QUEUE_NAME]:
        return
    for pod in document.pods:
        label = pod.template.at("metadata", "labels")[_QUEUE_NAME]
        if label:
            yield label.hit(f"{_QUEUE_NAME} is a label of the pods alone")


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Add the resource to coveredResources, with a quota.",
    source=f"{_CLUSTER_QUEUE}#flavors-and-resources",
)
def kueue_resource_not_covered(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """A workload with a resource that its queue does not cover is never admitted."""
    for document, queue in _queued(documents):
        covered = {each for group in _groups(queue) for each in group["coveredResources"].texts}
        for container in (each for pod in document.pods for each in pod.containers):
            for resource, value in container.requests.items() or container.limits.items():
                if resource not in covered:
                    yield document, value.hit(f"the queue {queue.name[:60]!r} does not cover {resource[:60]}")


@rule(
    RuleSeverity.INFO,
    Subject.INPUT,
    fix=f"Write the label {_QUEUE_NAME} into the metadata of the job.",
    source="https://kueue.sigs.k8s.io/docs/tasks/run/jobs/",
)
def kueue_label_missing(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """Kueue leaves a job without the label alone: it starts at once, and past the quota of its namespace."""
    queues = documents.by_place("LocalQueue")
    for document in documents.of(*_JOBS.split()) if queues else ():
        if not queues.get((document.text.source, document.namespace)) or document.group == "batch.volcano.sh":
            continue
        labels = [
            document.root.at("metadata", "labels"),
            *(each.template.at("metadata", "labels") for each in document.pods),
        ]
        if document.pods and not any(each[_QUEUE_NAME] for each in labels):
            yield (
                document,
                document.root.at("metadata", "name").hit(
                    f"{document.kind} {document.name[:60]!r} has no label {_QUEUE_NAME}"
                ),
            )


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Add the toleration to the pods, or to spec.tolerations of the flavor.",
    source=f"{_KUEUE}/resource_flavor/",
)
def kueue_taint_not_tolerated(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """Kueue admits a job to a flavor only if its pods tolerate the taints of the flavor's nodes."""
    for document, queue in _queued(documents):
        names = {each["name"].text for group in _groups(queue) for each in group["flavors"].items}
        found = [documents.nearest(document, "ResourceFlavor", name, namespaced=False) for name in sorted(names)]
        flavors = [each for each in found if each]
        for pod in document.pods if len(flavors) == len(names) else ():
            taints = [_untolerated(each, pod) for each in flavors]
            if taints and all(taints):
                place = pod.spec["tolerations"] or pod.spec
                yield document, place.hit(f"no toleration of {taints[0][:60]}, the taint of {flavors[0].name[:60]!r}")
                break


def _untolerated(flavor: Document, pod: PodTemplate) -> str:
    """The key of a taint of a flavor that neither its own tolerations nor those of a pod admit; "" without one."""
    tolerations = [*flavor.spec["tolerations"].items, *pod.spec["tolerations"].items]
    for taint in flavor.spec["nodeTaints"].items:
        is_tolerated = any(
            each["key"].text in ("", taint["key"].text)
            and each["effect"].text in ("", taint["effect"].text)
            and (each["operator"].text == "Exists" or each["value"].text == taint["value"].text)
            for each in tolerations
        )
        if taint["effect"].text != "PreferNoSchedule" and not is_tolerated:
            return taint["key"].text
    return ""


def _queued(documents: Documents) -> Iterator[tuple[Document, Document]]:
    """Each job whose label names a LocalQueue of the input, with the ClusterQueue of that."""
    for document in documents.documents if documents.of("ClusterQueue") else ():
        name = document.root.at("metadata", "labels")[_QUEUE_NAME].text
        local = documents.nearest(document, "LocalQueue", name) if name else None
        target = local.spec["clusterQueue"].text if local else ""
        queue = documents.nearest(document, "ClusterQueue", target, namespaced=False) if target else None
        if queue:
            yield document, queue


def _is_volcano(document: Document) -> bool:
    return document.group == "batch.volcano.sh"


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Lower minAvailable, or raise the replicas.",
    source=f"{_VOLCANO}#minavailable",
    kinds="Job",
)
def volcano_min_available(document: Document) -> Iterator[Hit]:
    """A job starts once so many pods have a node; Volcano refuses more than the tasks have replicas."""
    least = document.spec["minAvailable"]
    replicas = sum(each["replicas"].number or 1 for each in document.spec["tasks"].items)
    if _is_volcano(document) and (least.number or 0) > replicas:
        yield least.hit_value(f"minAvailable is {least.text}; the tasks have {replicas} replicas")


@rule(RuleSeverity.ERROR, Subject.DOCUMENT, fix="Rename one of the two.", source=f"{_VOLCANO}#tasks", kinds="Job")
def volcano_task_twice(document: Document) -> Iterator[Hit]:
    """The names of tasks are unique in a job; Volcano refuses it."""
    seen = set[str]()
    for task in document.spec["tasks"].items if _is_volcano(document) else ():
        if task["name"] and task["name"].text in seen:
            yield task["name"].hit_value(f"two tasks are called {task['name'].text[:60]!r}")
        seen.add(task["name"].text)


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write schedulerName: volcano.",
    source=f"{_VOLCANO}#schedulername",
    kinds="Job",
)
def volcano_other_scheduler(document: Document) -> Iterator[Hit]:
    """Only Volcano's scheduler starts the pods of a job together; the default one starts them one by one."""
    name = document.spec["schedulerName"]
    if _is_volcano(document) and name.text == "default-scheduler":
        yield name.hit_value(f"schedulerName {name.text} in a job of Volcano", "volcano")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write an integer of at least 1.",
    source="https://volcano.sh/en/docs/queue/#weight",
    kinds="Queue",
)
def volcano_queue_weight(document: Document) -> Iterator[Hit]:
    """The weight is the queue's share of the cluster; Volcano refuses one below 1."""
    weight = document.spec["weight"]
    if document.group == "scheduling.volcano.sh" and weight and (weight.number is None or weight.number < 1):
        yield weight.hit_value(f"the weight is {weight.text[:40]!r}")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write namespaceSelector: {} for all namespaces, or the labels of some.",
    source=f"{_CLUSTER_QUEUE}#namespace-selector",
    kinds="ClusterQueue",
)
def kueue_namespaces_missing(document: Document) -> Iterator[Hit]:
    """Without a selector of namespaces a queue admits the workloads of none: its jobs stay suspended."""
    has_selector = "namespaceSelector" in document.spec.fields and document.spec["namespaceSelector"].node is not None
    if document.spec.is_map and document.spec["resourceGroups"] and not has_selector:
        yield document.spec.hit("spec.namespaceSelector is missing")
