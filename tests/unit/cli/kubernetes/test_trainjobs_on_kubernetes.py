"""Verbs for TrainJobs on a cluster whose runtimes the command line does not read."""

import json
from pathlib import Path

ON = ("--on", "kubernetes")


def test_a_trainjob_of_a_runtime_that_only_the_cluster_has_is_submitted_and_suspended(cluster, submit, windlass):
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "finetune"}}
    Path("job.yaml").write_text(json.dumps({**job, "spec": {"runtimeRef": {"name": "site"}}}))
    assert submit("job.yaml").code == 0
    assert windlass("suspend", *ON, "trainjob/finetune").code == 0
    assert cluster.of_kind("TrainJob")[0]["spec"]["suspend"] is True
    assert windlass("suspend", *ON, "finetune").code == 5
    assert windlass("resume", *ON, "finetune").code == 0
    assert cluster.of_kind("TrainJob")[0]["spec"]["suspend"] is False
