"""A mesh is passed to the script, and refused if its degrees cannot be the job's ranks."""

import pytest

from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.errors import InputError


def job(**options):
    return from_options(RunOptions(**options), ["python", "train.py"], cwd="/srv", user="ada").job


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": "2", "procs": 4, "mesh": "pp=2,dp=2,tp=2"},
        {"nodes": "2", "gpus": 4, "mesh": "fsdp=*,tp=4"},
        {"nodes": "2:8", "gpus": 1, "mesh": "dp=*"},
        {"nodes": "3", "gpus": 2, "mesh": "auto"},
    ],
)
def test_the_script_reads_the_mesh_from_its_environment(options):
    assert job(**options).roles[0].env == {"WINDLASS_MESH": options["mesh"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"nodes": "2", "procs": 2, "mesh": "pp=2,dp=2,tp=2"},
            "makes 8 ranks, and there are 4: 2 × 2; change the mesh",
        ),
        ({"nodes": "3", "mesh": "dp=*,tp=2"}, "dp=*,tp=2 makes 2 ranks or a multiple, and there are 3: 3 × 1"),
        ({"mesh": "tensor=2"}, "expects degrees such as pp=2,dp=2,tp=2 or fsdp=*,tp=2, or auto, not 'tensor=2'"),
    ],
)
def test_a_mesh_that_does_not_match_the_ranks_is_refused(options, message):
    with pytest.raises(InputError) as raised:
        job(**options)
    assert message in str(raised.value)
    assert "--mesh" in str(raised.value)


def test_ranks_of_a_mesh_without_gpus_share_the_cores():
    assert "cpu" not in job(nodes="2", procs=4, mesh="tp=8").roles[0].resources
    assert job(nodes="2", procs=4, mesh="tp=8", cpus="2").roles[0].resources == {"cpu": 2000}


def test_a_role_of_a_file_has_its_own_mesh():
    text = "roles:\n  learner: {replicas: 2, command: python a.py, mesh: tp=2}\n  other: {command: python b.py}\n"
    (submission,) = loads(text)
    assert [dict(role.env) for role in submission.job.roles] == [{"WINDLASS_MESH": "tp=2"}, {}]
