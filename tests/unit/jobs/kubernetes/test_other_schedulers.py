"""Manifests for schedulers of others: the gang, its ranks, its limits, and the fields that are lost."""

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.resources import CPU, GPU
from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.external.pod_demands import GroupDemands, demands_of_group
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler
from windlass.jobs.kubernetes.other_schedulers.rendered_manifests import RenderedManifests, render_manifests
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests

RANKS = "image: img:1\ncommand: torchrun train.py\ngpus: 4"
GANG = f"{RANKS}\nnodes: 2"
ELASTIC = f"{RANKS}\nelastic: {{min: 1, max: 3}}"
ROLES = """\
image: img:1
roles:
  trainer: {replicas: 2, command: torchrun train.py}
  reader: {replicas: 3, command: torchrun read.py}
"""


def rendered(target: OtherScheduler, fields: str) -> RenderedManifests:
    return render_manifests(loads(f"name: digits\n{fields}\n", base="/srv"), target)


def objects(target: OtherScheduler, fields: str) -> dict[str, Any]:
    return {each["kind"]: each for each in rendered(target, fields).objects}


def templates(manifests: RenderedManifests) -> list[dict[str, Any]]:
    """The pod templates of all objects, in their order."""
    found = []
    for each in manifests.objects:
        spec = each.get("spec", {})
        jobs = [job["template"] for job in spec.get("replicatedJobs", ())] or [each]
        found += [job["spec"]["template"] for job in jobs if "template" in job.get("spec", {})]
        found += [task["template"] for task in spec.get("tasks", ())]
    return found


def variables(template: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in template["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        (OtherScheduler.KUEUE, ["JobSet"]),
        (OtherScheduler.JOBSET, ["JobSet"]),
        (OtherScheduler.VOLCANO, ["Job"]),
        (OtherScheduler.COSCHEDULING, ["PodGroup", "Service", "Job"]),
        (OtherScheduler.NATIVE, ["PodGroup", "Service", "Job"]),
    ],
)
def test_each_scheduler_gets_objects_of_its_own_kinds(target, kinds):
    assert [each["kind"] for each in rendered(target, GANG).objects] == kinds


@pytest.mark.parametrize("target", [OtherScheduler.JOBSET, OtherScheduler.COSCHEDULING])
def test_torchrun_finds_its_node_rank_in_the_index_of_its_pod(target):
    [template] = templates(rendered(target, GANG))
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    found = variables(template)
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"], found["PET_NODE_RANK"]) == ("2", "4", index)
    assert template["spec"]["containers"][0]["command"] == ["torchrun", "train.py"]


@pytest.mark.parametrize(
    ("target", "host"),
    [(OtherScheduler.JOBSET, "digits-worker-0-0.digits"), (OtherScheduler.VOLCANO, "digits-worker-0.digits")],
)
def test_ranks_meet_at_the_name_that_the_first_pod_has_there(target, host):
    [template] = templates(rendered(target, GANG))
    assert variables(template)["PET_MASTER_ADDR"] == host


@pytest.mark.parametrize("index", [0, 2])
def test_node_ranks_of_later_roles_follow_those_of_earlier_ones(index):
    _, reader = templates(rendered(OtherScheduler.JOBSET, ROLES))
    command = reader["spec"]["containers"][0]["command"]
    shown = [*command[:3], "/bin/sh", "-c", "echo $PET_NODE_RANK"]
    ran = subprocess.run(shown, env={"JOB_COMPLETION_INDEX": str(index)}, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{2 + index}\n"
    assert command[3:] == ["torchrun", "read.py"]


def test_a_job_set_restarts_the_gang_but_not_after_its_time():
    manifest = objects(OtherScheduler.JOBSET, f"{GANG}\ntime: 1h\nrestart: {{user: 3}}")["JobSet"]
    policy = manifest["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 3
    assert {rule["name"]: rule["action"] for rule in policy["rules"]} == {
        "walltime": "FailJobSet",
        "lost": "RestartJobSetAndIgnoreMaxRestarts",
    }


@pytest.mark.parametrize("field", ["queue: research", "labels: {kueue.x-k8s.io/queue-name: research}"])
def test_kueue_finds_the_local_queue_by_the_queue_of_the_job(field):
    manifest = objects(OtherScheduler.KUEUE, f"{GANG}\n{field}")["JobSet"]
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"


def test_kueue_may_admit_an_elastic_gang_with_fewer_pods():
    made = rendered(OtherScheduler.KUEUE, ELASTIC)
    _, job = made.objects
    assert job["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] == "1"
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)
    assert variables(templates(made)[0])["PET_NNODES"] == "1:3"
    assert variables(templates(made)[0])["PET_RDZV_BACKEND"] == "c10d"


def test_volcano_starts_an_elastic_gang_at_its_minimum():
    spec = objects(OtherScheduler.VOLCANO, f"{ELASTIC}\nqueue: ml")["Job"]["spec"]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"], spec["queue"]) == (1, 3, "ml")


def test_volcano_numbers_pods_by_its_plugin():
    [template] = templates(rendered(OtherScheduler.VOLCANO, GANG))
    assert "PET_NODE_RANK=$((VC_TASK_INDEX))" in template["spec"]["containers"][0]["command"][2]


@pytest.mark.parametrize(
    ("target", "fields", "loss"),
    [
        (OtherScheduler.COSCHEDULING, "restart: {user: 3}", "restart.user: a Job replaces single pods"),
        (OtherScheduler.NATIVE, "queue: ml", "queue: native has no queues"),
        (OtherScheduler.KUEUE, "priority: 5", "priority: pods have a PriorityClass by name"),
        (OtherScheduler.KUEUE, "deadline: 2h", "deadline: "),
        (OtherScheduler.VOLCANO, "restart: {user: 3}", "restart: Volcano has one limit, maxRetry: 16"),
        (OtherScheduler.VOLCANO, "suspend: true", "suspend: Jobs of Volcano"),
    ],
)
def test_lost_fields_are_named_with_the_job(target, fields, loss):
    assert any(warning.startswith(f"digits: {loss}") for warning in rendered(target, f"{GANG}\n{fields}").warnings)


def test_a_job_set_has_all_pods_of_an_elastic_gang():
    made = rendered(OtherScheduler.JOBSET, ELASTIC)
    assert made.objects[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == 3
    assert made.warnings == ("digits: elastic: a JobSet has a fixed number of pods, the largest one",)


def test_a_job_without_special_fields_loses_nothing_as_a_job_set():
    assert rendered(OtherScheduler.JOBSET, GANG).warnings == ()


@pytest.mark.parametrize("target", list(OtherScheduler))
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ("nodes: 2\ncommand: python train.py", "image: is missing"),
        (f"{GANG}\narray: 0-3", "an array is many jobs"),
        ("image: i\ncommand: ./a\nprocs: 2", "begin it with torchrun"),
    ],
)
def test_jobs_that_pods_cannot_run_are_refused(target, fields, error):
    with pytest.raises(InputError, match=error):
        rendered(target, fields)


def test_a_name_too_long_for_the_pods_of_a_job_set_is_refused():
    [submission] = loads(f"name: {'d' * 48}\nimage: i\nroles: {{{'r' * 11}: {{command: ./a}}}}\n", base="/srv")
    with pytest.raises(InputError, match="characters too long: a pod would be called"):
        render_manifests([submission], OtherScheduler.JOBSET)


@given(st.integers(1, 40), st.integers(0, 8), st.integers(1, 32))
@pytest.mark.parametrize(
    ("target", "dialect"),
    [
        (OtherScheduler.COSCHEDULING, Dialect.COSCHEDULING),
        (OtherScheduler.NATIVE, Dialect.NATIVE),
        (OtherScheduler.JOBSET, Dialect.JOB_SET),
        (OtherScheduler.KUEUE, Dialect.JOB_SET),
    ],
)
def test_the_scheduler_of_windlass_reads_the_same_gang_from_the_manifests(target, dialect, nodes, gpus, cpus):
    made = rendered(target, f"image: i\ncommand: torchrun t.py\nnodes: {nodes}\ngpus: {gpus}\ncpus: {cpus}")
    group = made.objects[0]
    assert demands_of_group(GangKey("default", "digits", dialect), group, ()) == GroupDemands(nodes)
    [template] = templates(made)
    asked = pod_requests(ManifestField(template["spec"]))
    assert (asked.get(GPU, 0), asked[CPU]) == (gpus, 1000 * cpus)
