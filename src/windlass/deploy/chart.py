"""The Helm chart: the same objects, with what may be chosen left open.

The definitions are templates and not in the folder `crds`, which Helm never upgrades; they stay when the release goes,
for with them would go every job. The default queue is not here: Helm takes no object of a kind that the same release
brings, and the scheduler has a queue of that name anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass import __version__
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.installation import IMAGE, permission_objects
from windlass.deploy.operator import REPLICAS, Setup, operator_objects
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml

_KEEP = {"helm.sh/resource-policy": "keep"}
_NUMBER = "{{ .Values.replicas }}"
_PLAIN = Setup(IMAGE)
_OPEN = Setup(
    image="{{ .Values.image.repository }}:{{ .Values.image.tag }}",
    namespace="{{ .Release.Namespace }}",
    replicas=_NUMBER,
    pull_policy="{{ .Values.image.pullPolicy }}",
    cpu="{{ .Values.resources.cpu }}",
    memory="{{ .Values.resources.memory }}",
)


def chart_files() -> Iterator[tuple[str, str]]:
    """Every file by its path."""
    yield "Chart.yaml", as_yaml([_chart()])
    yield "values.yaml", as_yaml([values()])
    for group in (*DEFAULT, POD_GROUPS):
        yield f"templates/{group}.yaml", _if(f"crds.{group}", as_yaml([_kept(crd) for crd in crds([group])]))
    yield "templates/permissions.yaml", _template(permission_objects(_OPEN))
    yield "templates/operator.yaml", _template(operator_objects(_OPEN))


def values() -> Manifest:
    """What may be chosen, and what is chosen if nobody does."""
    repository, _, tag = _PLAIN.image.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": _PLAIN.pull_policy},
        "replicas": REPLICAS,
        "resources": {"cpu": _PLAIN.cpu, "memory": _PLAIN.memory},
        "crds": {group: group in DEFAULT for group in (*DEFAULT, POD_GROUPS)},
    }


def _chart() -> Manifest:
    return {
        "apiVersion": "v2",
        "name": "windlass",
        "description": "Gang-scheduled, fault-tolerant distributed training: operator and scheduler in one process.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.29.0-0",
    }


def _template(objects: Sequence[Manifest]) -> str:
    return as_yaml(objects).replace(f"'{_NUMBER}'", _NUMBER)


def _if(value: str, text: str) -> str:
    return f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"


def _kept(manifest: Manifest) -> Manifest:
    """Not deleted with the release."""
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": _KEEP}}
