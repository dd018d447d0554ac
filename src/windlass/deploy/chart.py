"""The Helm chart: the same objects, with values for the options.

The definitions are templates and not in the folder `crds`, which Helm never upgrades. They are kept when the release is
deleted, because every job would be deleted with them. The default queue is not part of the chart: Helm refuses an
object of a kind that the same release creates, and the scheduler has a queue of that name anyway. The policies that
write users are a value, because API servers before 1.36 refuse their kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from windlass import __version__
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.installation import IMAGE, permission_objects, policy_objects
from windlass.deploy.job_policies import user_policies
from windlass.deploy.monitoring.prometheus_operator import monitoring_objects
from windlass.deploy.network_policies import operator_policies
from windlass.deploy.operator import REPLICAS, Setup, operator_objects
from windlass.deploy.permissions import FOREIGN_POD_GROUPS
from windlass.deploy.roles import cordon_roles, cull_roles, mpijob_v1_roles, pod_group_roles
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml

_NAMESPACE_MARK = "namespace-of-the-release"
_KEEP = {"helm.sh/resource-policy": "keep"}
_NUMBER = "{{ .Values.replicas }}"
_IMAGE = (
    "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
    "{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ end }}"
)
"""A digest is what counts if there is one; the tag stays readable beside it."""
_DEFAULTS = Setup(IMAGE)
_TEMPLATED = Setup(
    image="{{ image }}",
    namespace="{{ .Release.Namespace }}",
    replicas=_NUMBER,
    pull_policy="{{ .Values.image.pullPolicy }}",
    cpu="{{ .Values.resources.cpu }}",
    memory="{{ .Values.resources.memory }}",
    mpijob_v1="{{ .Values.mpiJobV1 }}",
    diagnoses_at_once="{{ .Values.diagnosesAtOnce }}",
    cordon_bad_nodes="{{ .Values.cordonBadNodes }}",
    cull_notebooks="{{ .Values.cullNotebooks }}",
    managed_namespaces="{{ .Values.managedNamespaces }}",
    foreign_schedulers="{{ .Values.foreignSchedulers }}",
    network="{{ .Values.network }}",
    metrics_level="{{ .Values.metricsLevel }}",
)


def chart_files() -> Iterator[tuple[str, str]]:
    """Path and text of every file."""
    yield "Chart.yaml", as_yaml([_chart()])
    yield "values.yaml", as_yaml([values()])
    for group in (*DEFAULT, POD_GROUPS):
        yield f"templates/{group}.yaml", _if(f"crds.{group}", as_yaml([_kept(crd) for crd in crds([group])]))
    yield (
        "templates/permissions.yaml",
        _template(permission_objects(replace(_TEMPLATED, mpijob_v1=False, cordon_bad_nodes=0, cull_notebooks=""))),
    )
    yield "templates/mpijob-v1.yaml", _if("mpiJobV1", as_yaml(mpijob_v1_roles(_TEMPLATED.namespace)))
    yield "templates/cordon.yaml", _if("cordonBadNodes", as_yaml(cordon_roles(_TEMPLATED.namespace)))
    yield "templates/cull.yaml", _if("cullNotebooks", as_yaml(cull_roles(_TEMPLATED.namespace)))
    for dialect in FOREIGN_POD_GROUPS:
        roles = as_yaml(pod_group_roles(_TEMPLATED.namespace, [dialect]))
        yield f"templates/podgroups-{dialect}.yaml", _if(f"podGroupRights.{dialect}", roles)
    yield "templates/admission.yaml", _template(policy_objects(_TEMPLATED))
    yield "templates/users.yaml", _if("admission.users", as_yaml(user_policies()))
    yield "templates/network.yaml", _if("networkPolicy.enabled", as_yaml(operator_policies(_TEMPLATED)))
    yield "templates/monitoring.yaml", _if("monitoring.enabled", _monitoring())
    yield "templates/operator.yaml", _template(operator_objects(_TEMPLATED))


def values() -> Manifest:
    """Values of the chart with their defaults."""
    repository, _, tag = _DEFAULTS.image.rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag, "digest": "", "pullPolicy": _DEFAULTS.pull_policy},
        "replicas": REPLICAS,
        "mpiJobV1": _DEFAULTS.mpijob_v1,
        "diagnosesAtOnce": _DEFAULTS.diagnoses_at_once,
        "cordonBadNodes": _DEFAULTS.cordon_bad_nodes,
        "cullNotebooks": _DEFAULTS.cull_notebooks,
        "managedNamespaces": _DEFAULTS.managed_namespaces,
        "foreignSchedulers": _DEFAULTS.foreign_schedulers,
        "network": _DEFAULTS.network,
        "podGroupRights": {str(dialect): False for dialect in FOREIGN_POD_GROUPS},
        "resources": {"cpu": _DEFAULTS.cpu, "memory": _DEFAULTS.memory},
        "admission": {"users": False},
        "networkPolicy": {"enabled": True},
        "metricsLevel": _DEFAULTS.metrics_level,
        "monitoring": {"enabled": False},
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
        "kubeVersion": ">=1.30.0-0",
    }


def _template(objects: Sequence[Manifest]) -> str:
    # the image after the fact: its line is too long for the writer of YAML
    return as_yaml(objects).replace(f"'{_NUMBER}'", _NUMBER).replace("{{ image }}", _IMAGE)


def _monitoring() -> str:
    """Objects for the Prometheus operator. Helm must not expand the templates of the alerts' texts."""
    text = as_yaml(monitoring_objects(replace(_TEMPLATED, namespace=_NAMESPACE_MARK)))
    return re.sub(r"\{\{.*?\}\}", r"{{`\g<0>`}}", text).replace(_NAMESPACE_MARK, _TEMPLATED.namespace)


def _if(value: str, text: str) -> str:
    return f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"


def _kept(manifest: Manifest) -> Manifest:
    """The object with the annotation that keeps it when the release is deleted."""
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": _KEEP}}
