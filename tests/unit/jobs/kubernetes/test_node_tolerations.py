"""Tolerations that Windlass adds to a pod: of GPU nodes, and of unreachable nodes for the grace of its job."""

from __future__ import annotations

import pytest

from windlass.core.model.job import Toleration
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.pods.node_tolerations import with_node_tolerations
from windlass.jobs.kubernetes.pods.pod_placement import tolerations_of

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def test_a_grace_above_the_default_adds_both_tolerations_with_a_margin() -> None:
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    spec = with_node_tolerations({"tolerations": [gpu], "containers": []}, 1_800_000)
    assert spec["tolerations"] == [
        gpu,
        {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1860},
        {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1860},
    ]


@pytest.mark.parametrize(
    ("limits", "taints"),
    [
        ({"nvidia.com/gpu": 8}, ["nvidia.com/gpu"]),
        ({"nvidia.com/mig-1g.10gb": "1"}, ["nvidia.com/gpu"]),
        ({"amd.com/gpu": 1, "cpu": 2}, ["amd.com/gpu"]),
        ({"nvidia.com/gpu": 0, "cpu": 2, "example.com/nic": 1}, []),
    ],
)
def test_a_pod_with_gpus_tolerates_the_taint_of_their_nodes(limits, taints) -> None:
    spec = with_node_tolerations({"containers": [{"resources": {"limits": limits}}]}, 0)
    added = [{"key": taint, "operator": "Exists", "effect": "NoSchedule"} for taint in taints]
    assert spec.get("tolerations", []) == added
    assert with_node_tolerations(spec, 0) is spec


def test_the_scheduler_sees_the_tolerations_that_pods_with_gpus_get() -> None:
    spec = ManifestField({"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]})
    assert tolerations_of(spec) == (Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule"),)


def test_the_default_grace_and_shorter_ones_change_no_template() -> None:
    spec = {"containers": []}
    assert with_node_tolerations(spec, 300_000) is spec
    assert with_node_tolerations(spec, 60_000) is spec


def test_tolerations_of_the_template_stay_as_they_are() -> None:
    own = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
    spec = with_node_tolerations({"tolerations": [own]}, 1_800_000)
    assert [each["key"] for each in spec["tolerations"]] == [UNREACHABLE, NOT_READY]
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert with_node_tolerations(everything, 1_800_000) is everything


def test_a_toleration_of_another_effect_is_not_enough() -> None:
    own = {"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}
    assert len(with_node_tolerations({"tolerations": [own]}, 1_800_000)["tolerations"]) == 3
