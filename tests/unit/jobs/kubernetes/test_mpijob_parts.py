import pytest

from windlass.jobs.kubernetes.kinds.mpijob_parts import in_its_version
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault


def mpi_job(version, **spec):
    return {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "spec": spec}


@pytest.mark.parametrize("read_as", ["v1", "v2beta1"])
@pytest.mark.parametrize("made_as", ["v1", "v2beta1"])
def test_a_job_keeps_its_created_version_through_either_version(read_as, made_as):
    assert in_its_version(mpi_job(read_as, dialect=made_as))["apiVersion"] == f"kubeflow.org/{made_as}"


def test_a_definition_of_one_version_gives_that_version():
    job = mpi_job("v1", slotsPerWorker=1)
    assert in_its_version(job) is job


@pytest.mark.parametrize("spec", [None, [], "v1", {"dialect": "v3"}, {"dialect": ["v1"]}])
def test_a_manifest_without_a_dialect_stays_as_it_is(spec):
    job = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "spec": spec}
    assert in_its_version(job) is job


def test_other_kinds_have_no_dialect():
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"dialect": "v2beta1"}}
    assert in_its_version(job) is job


def test_a_job_is_read_in_its_created_version():
    """Only v1 knows ExitCode."""
    launcher = {
        "replicas": 1,
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [{"name": "mpi", "image": "i"}]}},
    }
    job = mpi_job("v2beta1", dialect="v1", mpiReplicaSpecs={"Launcher": launcher}) | {"metadata": {"name": "pi"}}
    assert read(job).api_version == "kubeflow.org/v1"
    assert isinstance(read({**job, "spec": {"mpiReplicaSpecs": {"Launcher": launcher}}}), Fault)
