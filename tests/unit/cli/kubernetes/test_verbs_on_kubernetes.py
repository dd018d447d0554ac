"""Verbs on a cluster: the objects they write, their queries, and their output."""

import base64
import io
import json
import tarfile
from pathlib import Path

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.resources import PODS
from windlass.cli.kubernetes import api_session
from windlass.core.model.status import Failure, FailureClass, Phase
from windlass.server.errors import ApiError, ErrorCode

ON = ("--on", "kubernetes")
IMAGE = ("--image", "example.com/train:1")
PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Worker: {template: {spec: {containers: [{name: pytorch, image: example.com/mnist}]}}}
"""
TRAININGJOB = """\
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: big}
spec: {command: [python, train.py], gpus: 9, procs: 1, image: example.com/train}
"""


def only(cluster, kind="TrainingJob"):
    (made,) = cluster.of_kind(kind)
    return made


def test_a_job_becomes_an_object_of_a_new_name_in_the_users_namespace(cluster, submit):
    ran = submit("-N", "2", *IMAGE, "--", "python", "train.py")

    made = only(cluster)
    assert ran.code == 0
    assert ran.out == f"team/{made['metadata']['name']}\n"
    assert made["metadata"]["name"].startswith("train-")
    assert made["metadata"]["namespace"] == "team"
    assert made["metadata"]["annotations"]["windlass.dev/name"] == "train"
    assert made["spec"]["nodes"] == 2
    assert made["spec"]["image"] == "example.com/train:1"
    assert "workdir" not in made["spec"]
    assert cluster.of_kind("ConfigMap") == []


def test_a_job_has_its_user_as_the_api_server_knows_it(cluster, submit):
    assert submit(*IMAGE, "--", "true").code == 0
    assert "windlass.dev/user" not in only(cluster)["metadata"]["annotations"]
    cluster.objects.clear()
    cluster.lead()
    cluster.says["/apis/authentication.k8s.io/v1/selfsubjectreviews"] = {
        "status": {"userInfo": {"username": "oidc:ada"}}
    }
    assert submit(*IMAGE, "--", "true").code == 0
    assert only(cluster)["metadata"]["annotations"]["windlass.dev/user"] == "oidc:ada"


def test_a_script_is_run_by_python_of_the_image(cluster, submit):
    assert submit(*IMAGE, "train.py").code == 0
    assert only(cluster)["spec"]["command"] == ["python", "train.py"]


def test_a_missing_image_is_an_error_with_the_fixes(cluster, submit):
    ran = submit("--", "python", "train.py")

    assert ran.code == 2
    assert "a pod needs an image, and worker has none" in ran.err
    assert "--image" in ran.err
    assert cluster.of_kind("TrainingJob") == []


def test_the_folder_is_shipped_under_the_default_image_and_is_owned_by_the_job(cluster, submit, tmp_path):
    (tmp_path / "config/windlass").mkdir(parents=True)
    (tmp_path / "config/windlass/config.yaml").write_text("image: example.com/base:1\n")
    Path("train.py").write_text("print('hello')\n")
    Path("data.bin").write_bytes(b"0" * 10)
    Path(".windlassignore").write_text("*.bin\n")

    ran = submit("--", "python", "train.py")

    job, code = only(cluster), only(cluster, "ConfigMap")
    packed = base64.b64decode(code["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["train.py"]
    assert ran.err.startswith("windlass: shipping the code: 1 file, ")
    assert code["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert code["metadata"]["name"] in json.dumps(job["spec"]["pod"])


def test_equal_code_is_stored_once(cluster, submit):
    Path("train.py").write_text("print('hello')\n")

    for _ in range(2):
        assert submit(*IMAGE, "--ship", ".", "--", "python", "train.py").code == 0

    assert len(cluster.of_kind("TrainingJob")) == 2
    assert len(cluster.of_kind("ConfigMap")) == 1


def test_an_array_is_an_object_per_member_with_one_name(cluster, submit, windlass):
    ran = submit("--array", "0-2", *IMAGE, "--name", "sweep", "--", "python", "train.py")

    array = ran.out.strip().partition("/")[2]
    names = sorted(each["metadata"]["name"] for each in cluster.of_kind("TrainingJob"))
    assert names == [f"{array}-{index}" for index in range(3)]
    assert windlass("cancel", *ON, array).out.count("is being cancelled") == 3


def test_a_manifest_is_created_unchanged(cluster, submit):
    Path("job.yaml").write_text(PYTORCHJOB)

    assert submit("job.yaml").out == "team/pytorchjob/mnist\n"
    assert only(cluster, "PyTorchJob")["spec"]["pytorchReplicaSpecs"]["Worker"]


@pytest.mark.parametrize("verb", ["submit", "run"])
def test_an_unknown_field_of_a_manifest_is_refused_and_no_object_is_created(cluster, windlass, verb):
    Path("job.yaml").write_text(PYTORCHJOB.replace("image:", "imag:"))

    ran = windlass(verb, *ON, "job.yaml")

    assert ran.code == 2
    assert "job.yaml:6:" in ran.err
    assert "template.spec.containers[0].imag: unknown field; did you mean 'image'?" in ran.err
    assert cluster.of_kind("PyTorchJob") == []


def test_an_unknown_field_under_warn_is_reported_and_the_job_is_created(cluster, submit):
    Path("job.yaml").write_text(PYTORCHJOB.replace("image:", "tyt: true, image:"))

    ran = submit("--validate", "warn", "job.yaml")

    assert ran.code == 0
    assert "warning: job.yaml:6: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].tyt: unknown" in ran.err
    assert only(cluster, "PyTorchJob")


def test_a_field_missing_from_the_clusters_definition_is_refused_with_a_fix(cluster, submit):
    cluster.lacks.add("runPolicy")
    Path("job.yaml").write_text(PYTORCHJOB.replace("spec:\n", "spec:\n  runPolicy: {suspend: true}\n", 1))

    ran = submit("job.yaml")

    assert ran.code == 2
    assert 'PyTorchJob team/mnist cannot be created: unknown field "spec.runPolicy"' in ran.err
    assert "--validate warn" in ran.err
    assert submit("--validate", "warn", "job.yaml").code == 0


def test_a_manifest_printed_by_kubectl_is_submitted_as_a_new_object(cluster, submit):
    Path("job.yaml").write_text(
        PYTORCHJOB.replace(
            "{name: mnist}",
            "{name: mnist, namespace: team, uid: u-0, resourceVersion: '489', creationTimestamp: null, "
            "annotations: {team: vision, windlass.dev/cancel: ada, windlass.dev/state: '{}'}, labels: {a: b}}",
        )
        + "status: {conditions: [{type: Failed, status: 'True'}]}\n"
    )

    assert submit("job.yaml").code == 0
    made = only(cluster, "PyTorchJob")
    assert "status" not in made
    assert made["metadata"]["uid"] == "uid-1"
    assert made["metadata"]["annotations"] == {"team": "vision"}
    assert made["metadata"]["labels"] == {"a": "b"}


def test_an_existing_manifest_is_refused(cluster, submit):
    Path("job.yaml").write_text(PYTORCHJOB)
    submit("job.yaml")

    ran = submit("job.yaml")

    assert ran.code == 5
    assert "PyTorchJob team/mnist exists already" in ran.err


def test_several_jobs_are_created_all_or_none(cluster, submit):
    Path("jobs.yaml").write_text(f"{PYTORCHJOB.replace('mnist', 'first')}---\n{PYTORCHJOB}")
    Path("job.yaml").write_text(PYTORCHJOB)
    submit("job.yaml")

    assert submit("jobs.yaml").code == 5
    assert [each["metadata"]["name"] for each in cluster.of_kind("PyTorchJob")] == ["mnist"]


def test_missing_objects_that_a_job_names_are_reported(cluster, submit):
    Path("job.yaml").write_text(PYTORCHJOB.replace("{spec: {", "{spec: {priorityClassName: urgent, "))

    ran = submit("job.yaml")

    assert ran.code == 0
    assert "warning: there is no PriorityClass urgent: its pods are refused until it is made" in ran.err


def test_objects_that_the_user_may_not_read_are_not_reported_missing(cluster, submit):
    cluster.hidden.add("priorityclasses")
    Path("job.yaml").write_text(PYTORCHJOB.replace("{spec: {", "{spec: {priorityClassName: urgent, "))

    assert "warning" not in submit("job.yaml").err


TOO_BIG = "can never run on the existing nodes and queues: needs 9 gpu; largest gang that fits: 1 of 8 gpu"


def test_a_job_that_needs_a_larger_cluster_is_reported_at_submission(cluster, submit):
    """The operator supplies the reason; jobs with the same reason share a line."""
    jobs = [TRAININGJOB.replace("big", name) for name in ("big-1", "big-2", "small")]
    Path("jobs.yaml").write_text("---\n".join(jobs))
    cluster.says = {f"/v1/prospects/team/{name}": {"never": TOO_BIG} for name in ("big-1", "big-2")}

    ran = submit("jobs.yaml")

    assert (ran.code, ran.err) == (0, f"warning: team/big-1 (with 1 more): {TOO_BIG}\n")


def test_the_condition_is_used_if_the_operator_cannot_be_asked(cluster, submit):
    message = "TrainingJob big waits in the queue: needs 9 gpu: no node could take a replica, however empty."
    cluster.conditions = [{"type": "Queued", "status": "True", "reason": "NoMatchingFlavor", "message": message}]
    cluster.says["/v1/prospects/team/big"] = Unreachable("refused")
    Path("job.yaml").write_text(TRAININGJOB)

    ran = submit("job.yaml")

    assert (ran.code, ran.err) == (0, f"warning: team/big: {message}\n")


def test_a_job_that_can_never_run_is_reported_at_submission(cluster, windlass):
    put = cluster.put

    def refused(resource, manifest):
        made = put(resource, manifest)
        if resource.kind == "TrainingJob":
            message = {"reason": "Misconfigured", "message": "no node has 9 gpu", "finished_at": 2, "created_at": 1}
            cluster.commit(made["metadata"]["name"], phase=Phase.FAILED, **message)
        return made

    cluster.put = refused
    ran = windlass("submit", *ON, *IMAGE, "-G", "9", "--procs", "1", "--", "true")

    assert ran.code == 3
    assert "can never run here: no node has 9 gpu" in ran.err


def test_cancel_annotates_the_object_with_the_user(cluster, submit, windlass):
    submit(*IMAGE, "--name", "digits", "--", "true")

    ran = windlass("cancel", *ON, "digits")

    assert ran.out.endswith(" is being cancelled\n")
    assert only(cluster)["metadata"]["annotations"]["windlass.dev/cancel"]


def test_suspend_and_resume_set_the_field_of_the_kind(cluster, submit, windlass):
    Path("job.yaml").write_text(PYTORCHJOB)
    submit("job.yaml")

    assert windlass("suspend", *ON, "pytorchjob/mnist").code == 0
    assert only(cluster, "PyTorchJob")["spec"]["runPolicy"] == {"suspend": True}
    assert windlass("suspend", *ON, "mnist").code == 5
    assert windlass("resume", *ON, "team/pytorchjob/mnist").code == 0
    assert only(cluster, "PyTorchJob")["spec"]["runPolicy"] == {"suspend": False}


def test_an_ended_job_cannot_be_cancelled(cluster, submit, windlass):
    submit(*IMAGE, "--name", "digits", "--", "true")
    cluster.commit("digits", phase=Phase.SUCCEEDED, created_at=1, finished_at=2)

    ran = windlass("cancel", *ON, "digits")

    assert (ran.code, ran.err) == (5, "windlass: digits has ended already (Succeeded)\n")


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume"])
def test_a_cancelled_job_is_not_called_failed(cluster, submit, windlass, verb):
    submit(*IMAGE, "--name", "digits", "--", "true")
    end = {"reason": "Cancelled", "message": "cancelled by ada", "finished_at": 2}
    cluster.commit("digits", phase=Phase.FAILED, created_at=1, **end)

    ran = windlass(verb, *ON, "digits")

    assert (ran.code, ran.err) == (5, "windlass: digits has ended already: cancelled by ada\n")


def test_a_taken_name_is_reported_with_a_fix(cluster, windlass):
    Path("mnist.yaml").write_text(PYTORCHJOB)
    windlass("submit", *ON, "mnist.yaml")

    ran = windlass("submit", *ON, "mnist.yaml")

    assert ran.code == 5
    assert "PyTorchJob team/mnist exists already" in ran.err
    assert "or delete that one: kubectl delete pytorchjobs.kubeflow.org -n team mnist\n" in ran.err


def test_an_error_of_a_command_line_names_the_option_for_clusters(cluster, submit):
    ran = submit(*IMAGE, "-G", "2", "train.py")

    assert ran.code == 2
    assert "on the command line --procs 1" in ran.err


def test_a_listing_comes_from_the_operator_limited_to_a_given_namespace(cluster, windlass, made):
    rows = [{**made.line(made.running()), "id": f"{where}/digits"} for where in ("team", "other")]
    cluster.says["/v1/jobs"] = {"jobs": rows}

    assert windlass("queue", *ON, "-o", "name").out == "team/digits\nother/digits\n"
    assert windlass("queue", *ON, "-n", "other", "-o", "name").out == "other/digits\n"
    prefix = "/apis/queries.windlass.dev/v1"
    assert cluster.asked == [f"{prefix}/jobs", f"{prefix}/namespaces/other/jobs"]


def test_a_user_who_may_not_list_all_jobs_gets_those_of_the_own_namespace(cluster, windlass, made, monkeypatch):
    rows = [{**made.line(made.running()), "id": "team/digits"}]
    connection = api_session.Connection  # the fake one
    request = connection.request

    async def refuse_all(self, method, where, **more):
        if "/namespaces/" not in where:
            raise Refusal(403, "Forbidden", 'jobs.queries.windlass.dev is forbidden: User "ada" cannot list resource')
        return await request(self, method, where, **more)

    monkeypatch.setattr(connection, "request", refuse_all)
    cluster.says |= {"/v1/jobs": {"jobs": rows}, "/v1/history": {"jobs": rows}}
    for verb in ("queue", "history"):
        ran = windlass(verb, *ON, "-o", "name")
        assert (ran.code, ran.out) == (0, "team/digits\n")
        assert "showing namespace team only" in ran.err


def test_a_refused_query_names_the_role_to_ask_for(cluster, windlass):
    text = 'jobs.queries.windlass.dev is forbidden: User "ada" cannot list resource "reasons" in namespace "other"'
    cluster.says["/v1/why"] = Refusal(403, "Forbidden", text)

    ran = windlass("why", *ON, "-n", "other")

    assert ran.code == 77
    assert text in ran.err
    assert "ask for a RoleBinding to the ClusterRole view" in ran.err


def test_a_refused_reservation_names_the_rights_that_it_needs(cluster, windlass):
    cluster.says["/v1/snapshot"] = Refusal(403, "Forbidden", "snapshots.queries.windlass.dev is forbidden")
    ran = windlass("reserve", "night", "--nodes", "n1", "--for", "2h", "--maintenance", *ON)

    assert ran.code == 77
    assert "reservations are for administrators" in ran.err
    assert "create and delete on reservations.windlass.dev" in ran.err
    assert "ClusterRole view" not in ran.err


def test_an_operator_outside_the_cluster_is_found_by_its_lease(cluster, windlass, monkeypatch):
    monkeypatch.setenv("WINDLASS_OPERATOR", "windlass-system/windlass-operator")
    cluster.lead("http://127.0.0.1:4711")
    cluster.says["/v1/nodes"] = {"nodes": []}

    assert windlass("nodes", *ON, "-o", "json").out == "[]\n"
    assert cluster.asked == ["/v1/nodes"]


def test_job_states_come_from_objects_without_an_operator(cluster, submit, windlass):
    submit(*IMAGE, "--name", "digits", "--", "true")
    cluster.says["/v1/jobs"] = Refusal(404, "", "404 page not found")

    listed, story = windlass("queue", *ON), windlass("status", *ON, "digits")

    assert "showing the state stored in the objects; this cluster has no API v1.queries.windlass.dev" in listed.err
    assert " Queued " in listed.out
    assert story.out.startswith("team/digits-")


@pytest.mark.parametrize("verb", ["nodes", "share", "why"])
def test_some_queries_need_an_operator(cluster, windlass, verb):
    cluster.says |= {path: Unreachable("refused") for path in ("/v1/nodes", "/v1/shares", "/v1/why")}

    ran = windlass(verb, *ON)

    assert ran.code == 69
    assert "windlass operator check" in ran.err


def test_an_error_of_the_operator_is_passed_on(cluster, submit, windlass):
    submit(*IMAGE, "--name", "digits", "--", "true")
    name = only(cluster)["metadata"]["name"]
    refusal = Refusal(400, "", "")
    refusal.body = json.dumps(ApiError(ErrorCode.BAD_REQUEST, "--what-if has no such field").as_json()).encode()
    cluster.says[f"/v1/jobs/team/{name}/why"] = refusal

    ran = windlass("why", *ON, "digits", "--what-if", "colour=red")

    assert (ran.code, ran.err) == (2, "windlass: --what-if has no such field\n")


def test_logs_come_from_pods_and_from_stored_logs_of_deleted_pods(cluster, submit, windlass):
    submit("-N", "2", *IMAGE, "--name", "digits", "--", "true")
    job = only(cluster)
    name = job["metadata"]["name"]
    cluster.commit("digits", phase=Phase.RUNNING, generation=2, created_at=1)
    for rank in range(2):
        labels = {"windlass.dev/job-name": name, "windlass.dev/generation": "2"}
        owner = {"uid": job["metadata"]["uid"], "kind": "TrainingJob"}
        pod = {
            "metadata": {
                "name": f"{name}-worker-{rank}",
                "namespace": "team",
                "labels": labels,
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": f"n{rank}", "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
        cluster.put(PODS, pod)
        cluster.logs[f"{name}-worker-{rank}"] = f"2026-11-21T12:00:0{rank}.5Z step {rank}\n"
    kept = {"job": f"team/{name}", "generation": 1, "rank": 0, "role": "worker", "replica": 0}
    kept |= {"pod": "gone", "node": "n9", "text": "before\n", "missing": ""}
    cluster.says[f"/v1/jobs/team/{name}/logs"] = {"logs": [kept]}

    assert windlass("logs", *ON, "digits").out == "[r0 n0] step 0\n[r1 n1] step 1\n"
    assert windlass("logs", *ON, "digits", "--attempt", "1", "--bare").out == "before\n"
    assert windlass("logs", *ON, "digits", "--rank", "1", "--bare").out == "step 1\n"
    missing = windlass("logs", *ON, "digits", "--rank", "9")
    assert (missing.code, missing.err) == (2, f"windlass: team/{name} has no rank 9\nits ranks are 0-1\n")


def test_run_follows_a_job_to_its_end_and_returns_its_exit_code(cluster, windlass):
    put = cluster.put

    def ended(resource, manifest):
        made = put(resource, manifest)
        if resource.kind == "TrainingJob":
            failure = Failure(FailureClass.USER, "ExitCode", "worker-0 exited with code 7", 5, 0, 7)
            how = {"reason": "ExitCode", "message": failure.message, "last_failure": failure, "generation": 1}
            times = {"created_at": 1, "admitted_at": 3, "finished_at": 5}
            cluster.commit(made["metadata"]["name"], phase=Phase.FAILED, **how, **times)
        return made

    cluster.put = ended
    ran = windlass("run", *ON, *IMAGE, "--", "true")

    assert ran.code == 7
    assert "admitted in 2 ms" in ran.err
    assert "failed (ExitCode: worker-0 exited with code 7)" in ran.err
    assert f"logs: windlass logs team/{only(cluster)['metadata']['name']} --on kubernetes" in ran.err


def test_render_shows_the_shipped_code(cluster, windlass):
    Path("train.py").write_text("print('hello')\n")

    ran = windlass("render", "--for", "kubernetes", *IMAGE, "--ship", ".", "-o", "json", "--", "python", "train.py")

    assert [each["kind"] for each in json.loads(ran.out)["items"]] == ["ConfigMap", "Service", "Pod"]


def test_cluster_options_are_refused_on_this_machine(windlass):
    assert windlass("queue", "-n", "team").code == 2
    assert "add --on kubernetes" in windlass("run", "--ship", ".", "--", "true").err


def test_the_explanation_of_an_array_is_that_of_a_waiting_member(cluster, submit, windlass, made):
    array = submit("--array", "0-2", *IMAGE, "--name", "sweep", "--", "true").out.strip().partition("/")[2]
    for index, phase in enumerate((Phase.SUCCEEDED, Phase.QUEUED, Phase.RUNNING)):
        cluster.commit(f"{array}-{index}", phase=phase, created_at=1)
    line = {**made.line(made.queued()), "id": f"team/{array}-1"}
    cluster.says[f"/v1/jobs/team/{array}-1/why"] = {"job": line, "now": 2}

    assert windlass("why", *ON, array).out.startswith(f"team/{array}-1 Queued")


def test_run_follows_every_member_of_an_array(cluster, windlass):
    put = cluster.put

    def ended(resource, manifest):
        made = put(resource, manifest)
        if resource.kind == "TrainingJob":
            times = {"created_at": 1, "admitted_at": 3, "finished_at": 5}
            cluster.commit(made["metadata"]["name"], phase=Phase.SUCCEEDED, generation=1, **times)
        return made

    cluster.put = ended
    ran = windlass("run", *ON, *IMAGE, "--array", "0-2", "--", "true")

    assert ran.code == 0
    assert ran.err.count("succeeded: waited") == 3


def test_local_node_options_are_refused_for_a_cluster(cluster, windlass):
    ran = windlass("run", *ON, *IMAGE, "--local-nodes", "2", "--policy", "fifo", "--", "true")

    assert (ran.code, cluster.of_kind("TrainingJob")) == (2, [])
    assert "--local-nodes, --policy: a cluster has its own" in ran.err
