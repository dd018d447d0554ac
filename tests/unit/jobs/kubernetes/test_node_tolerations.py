"""Tolerations that keep a pod on an unreachable node for the grace of its job."""

from __future__ import annotations

from windlass.jobs.kubernetes.pods.node_tolerations import with_node_tolerations

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def test_a_grace_above_the_default_adds_both_tolerations_with_a_margin() -> None:
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists"}
    spec = with_node_tolerations({"tolerations": [gpu], "containers": []}, 1_800_000)
    assert spec["tolerations"] == [
        gpu,
        {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1860},
        {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1860},
    ]


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
