"""Findings of an installation check about TrainJobs and their runtimes."""

from windlass.deploy.install.findings import Severity
from windlass.deploy.install.runtime_check import findings_of_runtimes
from windlass.jobs.kubernetes.train_runtimes import standard_runtimes


def trainjob(name, status=None, of="torch-distributed", kind="ClusterTrainingRuntime"):
    spec = {"runtimeRef": {"name": of, "kind": kind}}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, **({"status": status} if status else {})}


def test_jobs_that_wait_for_a_runtime_are_a_warning_with_the_names():
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    ended = [trainjob("a", failed, "gone"), trainjob("b", {"windlass": {}}, "gone")]
    own = [trainjob("c", kind="TrainingRuntime"), trainjob("d", None, "own", "TrainingRuntime")]
    (finding,) = findings_of_runtimes([], [*ended, trainjob("e"), *own])
    assert finding.severity is Severity.WARNING
    assert finding.message == "3 TrainJobs wait for team/own, team/torch-distributed, torch-distributed"
    assert "windlass operator install --trainer" in finding.fix


def test_the_standard_runtimes_serve_jobs_of_every_namespace():
    (finding,) = findings_of_runtimes(standard_runtimes(), [trainjob("a")])
    assert (finding.severity, finding.message) == (Severity.OK, "5 for TrainJobs")
