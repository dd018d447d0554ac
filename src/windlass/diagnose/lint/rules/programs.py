"""Rules about Python programs within manifests: files of ConfigMaps, scripts of containers, steps of pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.diagnose.lint.documents import PIPELINE, Document
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.jobs.errors import Place
from windlass.jobs.syntax.yaml_tree import Scalar

_REPLACED = (
    (re.compile(r"torch\.cuda\.amp\.autocast\("), 'torch.amp.autocast("cuda")'),
    (re.compile(r"torch\.cuda\.amp\.GradScaler\("), 'torch.amp.GradScaler("cuda")'),
    (re.compile(r"from torch\.cuda\.amp import"), "from torch.amp import"),
    (re.compile(r"\bnn\.DataParallel\("), "torch.nn.parallel.DistributedDataParallel"),
    (re.compile(r"\bShardingStrategy\.[A-Z]"), "torch.distributed.fsdp.fully_shard"),
    (re.compile(r"\.set_gpu_limit\("), "set_accelerator_limit"),
)
"""Signature of a call → what replaced it."""


@rule(
    RuleSeverity.INFO,
    Subject.DOCUMENT,
    fix="Write the call that the message names.",
    source="https://docs.pytorch.org/docs/stable/amp.html",
)
def python_call_obsolete(document: Document) -> Iterator[Hit]:
    """PyTorch or the SDK of Kubeflow pipelines deprecated the call, or has a faster one in its place."""
    for program in _programs(document):
        for signature, replacement in _REPLACED:
            if found := signature.search(program.text):
                message = f"{found[0].rstrip('(')} was replaced by {replacement}"
                yield Hit(_place(document, program, found), message, fix=f"Write {replacement}.")


def _programs(document: Document) -> Iterator[Value]:
    """The texts of a document that are programs, or contain one."""
    files = document.root["data"].fields.items() if document.kind == "ConfigMap" else ()
    yield from (value for name, value in files if name.endswith(".py"))
    containers = [each.value for pod in document.pods for each in pod.all_containers]
    if document.kind == PIPELINE:
        spec = document.root["pipelineSpec"] or document.root
        containers += [each["container"] for each in spec.at("deploymentSpec", "executors").fields.values()]
    words = (each for one in containers for name in ("command", "args") for each in one[name].items)
    yield from (each for each in words if "import" in each.text)


def _place(document: Document, program: Value, found: re.Match[str]) -> Place:
    """The place within a literal block; elsewhere that of the whole text, whose lines are folded or quoted."""
    block = program.node.place.line if isinstance(program.node, Scalar) else 1
    lines = document.text.lines
    header = lines[block - 1] if block <= len(lines) else ""
    number = block + program.text.count("\n", 0, found.start())
    if re.search(r"\|[-+0-9]*\s*$", header) and number < len(lines) and found[0] in lines[number]:
        return Place(number + 1, lines[number].index(found[0]) + 1, len(found[0]))
    return program.place
