"""Reasons for which a job waits before it is planned: its namespace, and rights that the operator lacks."""

import pytest

from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, unresolved_job
from windlass.backends.kubernetes.cluster.managed_namespaces import unmanaged
from windlass.backends.kubernetes.jobs.job_fit import fit_job
from windlass.core.model.job import ArrayMember
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob

MANAGED = "windlass.dev/managed"


def mpijob(version):
    template = {"spec": {"containers": [{"name": "mpi", "image": "i", "command": ["mpirun"]}]}}
    replicas = {role: {"replicas": 1, "template": template} for role in ("Launcher", "Worker")}
    about = {"name": "m", "namespace": "team", "uid": "u"}
    parsed = registry.read(
        {
            "apiVersion": f"kubeflow.org/{version}",
            "kind": "MPIJob",
            "metadata": about,
            "spec": {"mpiReplicaSpecs": replicas},
        }
    )
    assert isinstance(parsed, ParsedJob)
    return parsed


def test_an_mpijob_v1_waits_for_rights_and_names_the_option_that_grants_them():
    fitted = fit_job(mpijob("v1"), NamespaceLookups(), runs_mpijobs_v1=False)
    assert "windlass operator install --mpijob-v1 grants them" in fitted.trouble
    assert fit_job(mpijob("v1"), NamespaceLookups(), runs_mpijobs_v1=True).trouble == ""
    assert fit_job(mpijob("v2beta1"), NamespaceLookups(), runs_mpijobs_v1=False).trouble == ""


@pytest.mark.parametrize("fit", [lambda parsed: fit_job(parsed, NamespaceLookups()), lambda p: unresolved_job(p, "no")])
def test_an_array_and_other_jobs_are_those_of_the_jobs_namespace(fit):
    labels = {"windlass.dev/array": "sweep", "windlass.dev/array-index": "1", "windlass.dev/array-limit": "2"}
    about = {"name": "sweep-1", "namespace": "team", "uid": "u", "labels": labels}
    spec = {"image": "i", "command": "torchrun t.py", "after": ["first"]}
    parsed = registry.read(
        {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec}
    )
    job = fit(parsed).job
    assert (job.array, job.after[0].job_id) == (ArrayMember("team/sweep", 1, 2), "team/first")


def test_a_job_in_a_namespace_that_is_not_managed_waits():
    assert fit_job(mpijob("v2beta1"), NamespaceLookups(unmanaged="no")).trouble == "no"


@pytest.mark.parametrize(
    ("namespace", "labels", "only_labelled", "managed"),
    [
        ("team", {}, False, True),
        ("team", {}, True, False),
        ("team", {MANAGED: "true"}, True, True),
        ("team", {MANAGED: "false"}, False, False),
        ("kube-system", {MANAGED: "true"}, False, False),
    ],
)
def test_labels_and_the_installation_decide_which_namespaces_are_managed(namespace, labels, only_labelled, managed):
    assert (unmanaged(namespace, labels, only_labelled=only_labelled) == "") is managed
