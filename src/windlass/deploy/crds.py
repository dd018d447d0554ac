"""The CustomResourceDefinitions that Windlass installs, in selectable groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.deploy.definition import Definition, custom_resource
from windlass.deploy.kubeflow import kubeflow_kinds
from windlass.deploy.labels import labels_of
from windlass.deploy.own_kinds import own_kinds
from windlass.deploy.pod_group import pod_group_kinds
from windlass.deploy.trainer import trainer_kinds
from windlass.jobs.kubernetes.manifest_reader import Manifest

OWN, KUBEFLOW, TRAINER, POD_GROUPS = "windlass", "kubeflow", "trainer", "podgroups"
DEFAULT = (OWN, KUBEFLOW, TRAINER)


_KINDS_OF_GROUP: dict[str, Callable[[], list[Definition]]] = {
    OWN: own_kinds,
    KUBEFLOW: kubeflow_kinds,
    TRAINER: trainer_kinds,
    POD_GROUPS: pod_group_kinds,
}


def chosen_groups(*, others: bool, trainer: bool, pod_groups: bool) -> tuple[str, ...]:
    """The groups of an installation. `others`: with Kubeflow's kinds; `trainer`: with the trainer's in any case."""
    chosen = DEFAULT if others else (OWN, TRAINER) if trainer else (OWN,)
    return (*chosen, POD_GROUPS) if pod_groups else chosen


def definitions(groups: Iterable[str] = DEFAULT) -> list[Definition]:
    """Definitions of some groups."""
    return [definition for group in groups for definition in _KINDS_OF_GROUP[group]()]


def crds(groups: Iterable[str] = DEFAULT) -> list[Manifest]:
    """CustomResourceDefinitions of some groups, in the order in which to apply them."""
    return [custom_resource(definition, labels_of("crd")) for definition in definitions(groups)]
