"""Nodes that the volumes of a pod allow."""

import pytest
from cluster_objects import claim, volume

from windlass.backends.kubernetes.cluster.volumes import (
    MAX_TERMS,
    StorageObjects,
    VolumeConstraints,
    claims_of,
    intersect_terms,
    storage_class,
    volume_constraints,
)
from windlass.core.model.job import Match
from windlass.jobs.kubernetes.manifest_reader import ManifestField

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def stock(*there, classes=()):
    return StorageObjects(
        {(each.metadata.namespace, each.metadata.name): each for each in there if hasattr(each.spec, "volume_name")},
        {each.metadata.name: each for each in there if hasattr(each.spec, "node_affinity")},
        {each["metadata"]["name"]: storage_class(each) for each in classes},
    )


def a_class(name, mode="WaitForFirstConsumer", provisioner="ebs.csi.aws.com", **more):
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def test_a_bound_volume_restricts_its_pod_to_its_zone():
    there = stock(claim("data", "{volumeName: pv-1}"), volume("pv-1", {ZONE: ["a", "b"]}))
    assert volume_constraints(["data"], "default", there) == VolumeConstraints(((Match(ZONE, "In", ("a", "b")),),))


def test_a_claim_that_its_job_makes_is_no_trouble_before_it_exists():
    late = a_class("late", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}])
    classes = stock(classes=[late, a_class("at-once", mode="Immediate")])
    for name, terms in (("late", ((Match(ZONE, "In", ("a",)),),)), ("at-once", ()), ("", ())):
        found = volume_constraints(["mine"], "default", classes, {"mine": name})
        assert found == VolumeConstraints(terms, ("mine",))
    assert volume_constraints(
        ["mine"], "default", stock(claim("mine", "{volumeName: pv-1}"), volume("pv-1")), {"mine": ""}
    )
    assert volume_constraints(["other"], "default", classes, {"mine": ""}).trouble


def test_a_volume_without_affinity_restricts_no_pod():
    there = stock(claim("nfs", "{volumeName: pv-1}"), volume("pv-1"))
    assert volume_constraints(["nfs"], "default", there) == VolumeConstraints()


def test_two_volumes_restrict_their_pod_together():
    there = stock(
        claim("data", "{volumeName: pv-1}"),
        claim("scratch", "{volumeName: pv-2}"),
        volume("pv-1", {ZONE: ["a"]}, {ZONE: ["b"]}),
        volume("pv-2", {HOST: ["n1"]}),
    )
    on_n1 = Match(HOST, "In", ("n1",))
    assert volume_constraints(["data", "scratch"], "default", there).terms == (
        (Match(ZONE, "In", ("a",)), on_n1),
        (Match(ZONE, "In", ("b",)), on_n1),
    )


def test_a_claim_that_waits_for_its_first_pod_gets_the_node():
    there = stock(claim("data", "{storageClassName: ebs}", "Pending"), classes=[a_class("ebs")])
    assert volume_constraints(["data"], "default", there) == VolumeConstraints(to_choose=("data",))


def test_a_class_provisions_volumes_only_in_its_topologies():
    in_a = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]}
    there = stock(claim("data", "{storageClassName: ebs}", "Pending"), classes=[a_class("ebs", **in_a)])
    assert volume_constraints(["data"], "default", there) == VolumeConstraints(
        ((Match(ZONE, "In", ("a",)),),), ("data",)
    )


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (stock(), "there is no PersistentVolumeClaim data in namespace default; create it"),
        (stock(claim("data", deletionTimestamp="2026-01-01T00:00:00Z")), "is being deleted"),
        (stock(claim("data", "{volumeName: pv-1}", "Lost")), "has lost its volume pv-1"),
        (stock(claim("data", "{volumeName: pv-1}")), "waits for its volume pv-1, which is not there"),
        (stock(claim("data", "{}", "Pending")), "is not bound to a volume yet"),
        (stock(claim("data", "{storageClassName: x}", "Pending")), "there is no StorageClass x; create it"),
        (
            stock(claim("data", "{storageClassName: x}", "Pending"), classes=[a_class("x", "Immediate")]),
            "is not bound to a volume yet",
        ),
        (
            stock(
                claim("data", "{storageClassName: x}", "Pending"),
                classes=[a_class("x", provisioner="kubernetes.io/no-provisioner")],
            ),
            "set its volumeName",
        ),
    ],
)
def test_claims_that_delay_every_pod_are_reported(there, message):
    assert message in volume_constraints(["data"], "default", there).trouble


def test_a_pod_has_claims_of_its_volumes():
    spec = {
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "d", "emptyDir": {}},
        ]
    }
    assert claims_of(ManifestField(spec)) == ("data",)
    assert claims_of(ManifestField(spec), "digits-worker-0") == ("data", "digits-worker-0-c")


def test_a_term_that_matches_no_node_stays_unmatched():
    here = ((Match("a", "Exists"),),)
    assert intersect_terms(((),), here) == ((),)
    assert intersect_terms((), here) == here
    assert intersect_terms(here, here) == here
    assert intersect_terms() == ()


def test_too_many_terms_are_refused():
    many = tuple((Match("a", "In", (str(number),)),) for number in range(20))
    others = tuple((Match("b", "In", (str(number),)),) for number in range(20))
    with pytest.raises(ValueError, match="allow 400 places together; give them fewer terms"):
        intersect_terms(many, others)
    assert MAX_TERMS < 400
