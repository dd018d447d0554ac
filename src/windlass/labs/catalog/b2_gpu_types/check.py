"""Check of B2: a pod that selected a model and tolerated a taint, and jobs that asked for models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab

PRODUCT = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"
MODELS = {"n1": "NVIDIA-A100-SXM4-80GB", "n2": "NVIDIA-H100-80GB-HBM3"}
WANTED = "n2"
SUBMIT = "windlass submit --on kubernetes -G 1 --gpu-type MODEL --image windlass-examples:1 -- echo trained"


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the nodes, at the learner's pods, then at the jobs of Windlass."""
    nodes = lab.kube("/api/v1/nodes")["items"]
    labels = {node["metadata"]["name"]: node["metadata"].get("labels", {}).get(PRODUCT) for node in nodes}
    wrong = [name for name, model in MODELS.items() if labels.get(name) != model]
    yield Finding(
        not wrong,
        "the labels of the nodes name the models that are there",
        "a label says what a node is, and changes no GPU: windlass lab start b2 --fresh writes the labels again",
    )
    # 1. a pod on the H100
    pods = [pod for pod in lab.kube("pods")["items"] if not pod["metadata"].get("ownerReferences")]
    yield from _selected(pods)
    # 2. a model that no node has
    jobs = lab.kube("windlass.dev/v1alpha1/trainingjobs")["items"]
    yield from _explained(lab, jobs)
    # 3. a model that a node has
    yield Finding(
        any(job["spec"].get("gpu_type") and _state(job) == "Succeeded" for job in jobs),
        "a job that asks for a model has succeeded",
        f"{SUBMIT}; MODEL is a label of a node, or several with commas, best first. windlass why JOB --on kubernetes "
        "says what it waits for",
    )


def _selected(pods: Sequence[Any]) -> Iterator[Finding]:
    """Yields whether a pod with a GPU selected the model, tolerated the taint, and has succeeded on the node."""
    pods = [pod for pod in pods if any(GPU in each.get("limits", {}) for each in _resources(pod))]
    yield Finding(bool(pods), "a pod requests a GPU", "kubectl apply -f train.yaml")
    if not pods:
        return
    pod = max(pods, key=lambda each: (_is_done(each), _selector(each), _tolerates(each)))
    name, product = pod["metadata"]["name"], pod["spec"].get("nodeSelector", {}).get(PRODUCT)
    yield Finding(
        bool(_selector(pod)),
        f"the pod {name} selects a model by label",
        f"the pod {name} selects no model: a node's name ties it to one machine; set nodeSelector {PRODUCT}",
    )
    if product is not None:
        yield Finding(
            product in MODELS.values(),
            f"a node has the label that {name} selects",
            f"no node has the label {PRODUCT}={product}; a selector compares whole values: kubectl get nodes -L "
            f"{PRODUCT}",
        )
    yield Finding(
        _tolerates(pod),
        f"the pod {name} tolerates the taint of {WANTED}",
        f"{WANTED} has the taint {GPU}=present:NoSchedule: add tolerations to the pod, and leave the taint, which "
        "keeps pods without a GPU away",
    )
    yield Finding(
        _is_done(pod),
        f"the pod {name} has succeeded on the node with {MODELS[WANTED]}",
        f"the pod {name} is {pod['status'].get('phase')}: kubectl describe pod {name}",
    )


def _explained(lab: Lab, jobs: Sequence[Any]) -> Iterator[Finding]:
    """Yields whether the learner asked why a job waits that no node can run, and has cancelled it since."""
    why = lab.file("why.txt") or ""
    impossible = [job for job in jobs if (models := _models(job)) and not models & set(MODELS.values())]
    yield Finding(
        bool(impossible), "a job has asked for a model that no node has", SUBMIT.replace("MODEL", "NVIDIA-B200")
    )
    if not impossible:
        return
    yield Finding(
        any(job["metadata"]["name"] in why and any(model in why for model in _models(job)) for job in impossible),
        "why.txt says for what the job waits",
        "why.txt names neither the job nor its model: windlass why --on kubernetes > why.txt, while the job waits",
    )
    waiting = [job["metadata"]["name"] for job in impossible if _state(job) == "Queued"]
    yield Finding(
        not waiting,
        "no job waits for a model that no node has",
        f"{', '.join(waiting)} would wait for ever: windlass cancel {' '.join(waiting)} --on kubernetes",
    )


def _resources(pod: Any) -> Iterator[Any]:
    return (each.get("resources", {}) for each in pod["spec"]["containers"])


def _selector(pod: Any) -> bool:
    """Whether the pod selects nodes by their model; the text of an affinity is enough to tell."""
    spec = pod["spec"]
    return any(PRODUCT in str(spec.get(each, {})) for each in ("nodeSelector", "affinity"))


def _tolerates(pod: Any) -> bool:
    """Whether a toleration matches the taint of the node, by the rules of the scheduler."""
    return any(
        each.get("key") in (None, GPU)
        and each.get("effect") in (None, "", "NoSchedule")
        and (each.get("operator") == "Exists" or each.get("value") == "present")
        for each in pod["spec"].get("tolerations", ())
    )


def _is_done(pod: Any) -> bool:
    return (pod["status"].get("phase"), pod["spec"].get("nodeName")) == ("Succeeded", WANTED)


def _models(job: Any) -> set[str]:
    return set(job["spec"].get("gpu_type", ()))


def _state(job: Any) -> str:
    return str(job.get("status", {}).get("state", ""))
