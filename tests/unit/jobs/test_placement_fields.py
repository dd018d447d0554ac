"""Fields of placement in files and on the command line."""

import pytest

from windlass.core.model.job import Match, TopologyRequest
from windlass.jobs.description.job_file import load, loads
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.errors import InputError


def job(written):
    (submission,) = loads(f"command: python train.py\n{written}")
    return submission.job


def role(written):
    return job(written).roles[0]


def given(**options):
    return from_options(RunOptions(**options), ("python", "train.py"), cwd="/srv", user="ada").job


def error_of(written):
    with pytest.raises(InputError) as error:
        job(written)
    return str(error.value)


def refused(**options):
    with pytest.raises(InputError) as error:
        given(**options)
    return str(error.value)


def test_an_elastic_job_requests_its_maximum_and_accepts_its_minimum():
    assert not role("nodes: 4").elastic
    elastic = role("elastic: {min: 2, max: 8}")
    assert (elastic.min_replicas, elastic.replicas, elastic.max_replicas) == (2, 8, 8)
    assert given(nodes="2:8").roles == given(nodes="2-8").roles
    assert given(nodes="2:8").roles[0].min_replicas == 2


def test_one_role_can_be_elastic():
    roles = "roles: {ps: {}, worker: {elastic: {min: 1, max: 3}}}"
    assert [role.elastic for role in job(roles).roles] == [False, True]
    two = "roles: {a: {elastic: {min: 1, max: 3}}, b: {elastic: {min: 1, max: 3}}}"
    assert "2:45: only one role can be elastic, and 'a' is" in error_of(two)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("nodes: 2\nelastic: {min: 2, max: 8}", "3:1: elastic and nodes both say how many; keep one of them"),
        ("elastic: {min: 8, max: 2}", "2:1: elastic expects min to be at most max, not 8 > 2"),
        ("elastic: {min: 8}", "2:10: elastic lacks max; write for example {min: 2, max: 8}"),
        ("roles: {a: {}}\nelastic: {min: 1, max: 2}", "3:1: elastic is for a job of one role"),
        ("gpus: 2\nmig: 3g.20gb", "3:1: gpus and mig are two ways to ask for GPUs; keep one of them"),
        ("mig: 3g", "2:6: mig expects a MIG profile such as 1g.10gb or 3g.20gb, not '3g'"),
        ("gpu_share: 1", "2:12: gpu_share expects a part of one GPU such as 0.5 or 500m, not 1; whole ones are gpus"),
        ("gpu-share: 0.5", "2:1: unknown field 'gpu-share'; did you mean 'gpu_share'?"),
        ("affinity: 'zone in a'", "2:11: affinity expects conditions such as 'zone in (a,b), gpu-type != T4, !spot'"),
        ("topology: {spread: true}", "2:11: topology lacks level"),
        ("exclusive: true", "2:1: unknown field 'exclusive'; it is called 'whole_node' here"),
    ],
)
def test_a_fault_is_reported_with_its_place_and_the_fix(written, message):
    assert f"<text>:{message}" in error_of(written)


def test_a_part_of_a_gpu_is_in_thousandths():
    assert role("gpu_share: 0.5").resources == {"gpu-milli": 500}
    assert role("gpu_share: 250m").resources == {"gpu-milli": 250}
    assert given(gpu_share=".3333").roles[0].resources == role("gpu_share: 0.3333").resources


def test_a_slice_of_a_gpu_is_a_resource_of_its_name():
    assert role("mig: 3g.20gb").resources == {"mig-3g.20gb": 1}
    assert role("mig: 3g.20gb").procs == 1


def test_a_gpu_request_of_a_role_replaces_that_of_the_job():
    ps, worker = job("gpus: 4\nroles: {ps: {gpu_share: 0.1}, worker: {}}").roles
    assert (ps.resources, worker.resources) == ({"gpu-milli": 100}, {"gpu": 4})


def test_affinity_is_any_of_its_terms_and_all_conditions_of_one():
    zone = Match("zone", "In", ("a", "b"))
    terms = role('affinity: ["zone in (a,b), !spot, gpu-type != T4", "rank > 5, big"]').affinity
    assert terms[0] == (zone, Match("spot", "DoesNotExist"), Match("gpu-type", "NotIn", ("T4",)))
    assert terms[1] == (Match("rank", "Gt", ("5",)), Match("big", "Exists"))
    assert given(affinity=("zone in (a,b)", "zone=c")).roles[0].affinity == ((zone,), (Match("zone", "In", ("c",)),))


def test_topology_is_required_unless_it_is_only_preferred():
    assert job("topology: {level: rack}").topology == TopologyRequest("rack", required=True)
    written = TopologyRequest("rack", required=False, slice=4)
    assert given(topology="rack,preferred,slice=4").topology == written
    assert job("topology: {level: rack, preferred: true, slice: 4}").topology == written
    assert given(topology="level=rack,spread").topology == TopologyRequest("rack", spread=True)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"topology": "rack,near"}, "--topology: cannot be 'rack,near'; write LEVEL[,preferred][,spread][,slice=4]"),
        ({"topology": "spread"}, "--topology: lacks the level; write LEVEL[,preferred][,spread][,slice=4]"),
        ({"nodes": "8:2"}, "--nodes: expects MIN:MAX with MIN at most MAX, not '8:2'"),
        ({"nodes": "two"}, "--nodes: expects a number such as 2, or MIN:MAX for an elastic job, not 'two'"),
        ({"avoid": ("n1,N 2",)}, "--exclude: expects a node's name, not 'N 2'"),
    ],
)
def test_an_unreadable_option_is_refused_with_an_example(option, message):
    assert refused(**option) == message


def test_excluded_nodes_and_gpu_models_keep_their_order():
    written = given(avoid=("n1,n2", "n1"), gpu_type=("H100,A100",), preemptible=False, whole_node=True)
    assert (written.avoid, written.gpu_types) == (("n1", "n2"), ("H100", "A100"))
    assert (written.preemptible, written.roles[0].whole_node) == (False, True)


def test_options_replace_alternative_fields_of_the_file(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("command: python train.py\nelastic: {min: 2, max: 8}\ngpus: 4\n")
    (submission,) = load(str(file), RunOptions(nodes="3", gpu_share="0.5"))
    (role,) = submission.job.roles
    assert (role.replicas, role.elastic, role.resources) == (3, False, {"gpu-milli": 500})
