"""Rules about compiled Kubeflow pipelines and notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.lint.documents import PIPELINE, Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value

_SPEC = "https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto"


def _spec(document: Document) -> Value:
    """The specification of a pipeline, which some tools put below a name."""
    return document.root["pipelineSpec"] or document.root


def _accelerators(document: Document) -> Iterator[Value]:
    executors = _spec(document).at("deploymentSpec", "executors")
    for executor in executors.fields.values():
        accelerator = executor.at("container", "resources", "accelerator")
        if accelerator:
            yield accelerator


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Call set_accelerator_limit and set_accelerator_type on the task.",
    source=_SPEC,
    kinds=PIPELINE,
)
def pipeline_accelerator_incomplete(document: Document) -> Iterator[Hit]:
    """An accelerator needs its type and a count above 0; the task otherwise runs without one."""
    for each in _accelerators(document):
        kind = each["resourceType"] or each["type"]
        count = each["resourceCount"] or each["count"]
        if not kind or count.text in ("", "0"):
            yield each.hit(f"the accelerator has no {'type' if not kind else 'count'}")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write the resource of the device plugin, for example nvidia.com/gpu.",
    source=_SPEC,
    kinds=PIPELINE,
)
def pipeline_accelerator_type(document: Document) -> Iterator[Hit]:
    """On Kubernetes the type is the name of a resource; no node has one without a domain."""
    for each in _accelerators(document):
        kind = each["resourceType"] or each["type"]
        if kind and "/" not in kind.text and "{{" not in kind.text:
            yield kind.hit_value(f"{kind.text[:60]!r} is no resource of Kubernetes")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Compile the pipeline again.",
    source=_SPEC,
    kinds=PIPELINE,
)
def pipeline_reference_unknown(document: Document) -> Iterator[Hit]:
    """Tasks name components, and components executors, of the same file; the backend refuses another name."""
    spec = _spec(document)
    components, executors = spec["components"].fields, spec.at("deploymentSpec", "executors").fields
    graphs = [spec.at("root", "dag"), *(each["dag"] for each in components.values())]
    for task in (each for graph in graphs for each in graph["tasks"].fields.values()):
        name = task.at("componentRef", "name")
        if name and name.text not in components:
            yield name.hit_value(f"there is no component {name.text[:60]!r}")
    for component in components.values():
        label = component["executorLabel"]
        if label and label.text not in executors:
            yield label.hit_value(f"there is no executor {label.text[:60]!r}")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Compile the pipeline with version 2 of the SDK.",
    source="https://www.kubeflow.org/docs/components/pipelines/user-guides/migration/",
    kinds="Workflow",
)
def pipeline_of_old_sdk(document: Document) -> Iterator[Hit]:
    """Version 1 of the SDK compiles to a Workflow of Argo; pipeline specifications replaced it in version 2."""
    name = "pipelines.kubeflow.org/kfp_sdk_version"
    version = document.root.at("metadata", "annotations")[name] or document.root.at("metadata", "labels")[name]
    if version.text.startswith("1."):
        yield version.hit(f"compiled by version {version.text[:20]} of the SDK")


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Mount a claim at the home folder.",
    source="https://www.kubeflow.org/docs/components/notebooks/overview/",
    kinds="Notebook",
)
def notebook_without_claim(document: Document) -> Iterator[Hit]:
    """A stopped notebook loses its container's files; those of a claim stay."""
    for pod in document.pods:
        kept = [each for each in pod.spec["volumes"].items if each["persistentVolumeClaim"] or each["ephemeral"]]
        if pod.containers and not kept and not pod.root.at("spec", "volumeClaimTemplates"):
            yield pod.spec.hit("the notebook mounts no claim")
