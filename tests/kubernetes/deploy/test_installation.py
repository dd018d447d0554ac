"""`windlass operator` against an API server of its own, in which it may create and delete everything."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml
from planes.fixtures import OPERATORS, recorded_plane
from planes.tidy import clear

import strays
from deploy.refused_manifests import KINDS, whole
from deploy.samples import place, sample
from windlass.cli.entry import main
from windlass.controlplane.api import ApiError
from windlass.controlplane.build import find
from windlass.controlplane.cluster import Settings, add_default_account
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import Script
from windlass.deploy.installation import IMAGE, installation_objects
from windlass.deploy.operator import Setup
from windlass.deploy.trainer_objects import trainer_objects
from windlass.jobs.kubernetes.operator_names import NAMESPACE
from windlass.jobs.kubernetes.train_runtimes import standard_runtimes

pytestmark = pytest.mark.apiserver
KUSTOMIZE = Path(__file__).parents[3] / "deploy/kustomize"
LEASES = "/apis/coordination.k8s.io/v1/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOBS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/windlass-operator"
SECONDS = 6.0
"""Runtime of each pod, long enough to replace one operator by another."""
MPIJOB_V1 = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/windlass-operator-mpijob-v1"
QUERIES = "/apis/apiregistration.k8s.io/v1/apiservices/v1.queries.windlass.dev"
MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def plane(apiserver, tmp_path_factory):
    """An API server. The fixture `apiserver` only provides the programs, because other tests use that server."""
    folder = tmp_path_factory.mktemp("installation")
    with recorded_plane(folder, Settings(), OPERATORS) as own:
        yield own


@pytest.fixture
def windlass(plane, capsys):
    def run(*words):
        code = main(["operator", *words, "--kubeconfig", str(plane.kubeconfig)])
        output = capsys.readouterr()
        return int(code), output.out, output.err

    return run


@pytest.fixture
def api(plane):
    def run(story):
        async def connected():
            async with plane.api() as client:
                return await story(client)

        return asyncio.run(connected())

    return run


def verdicts(windlass, *words):
    """Findings of a check by their subject."""
    code, out, _ = windlass("check", "-o", "json", *words)
    return code, {row["about"]: row for row in json.loads(out)}


def test_a_check_of_a_cluster_without_windlass_suggests_to_install_it(windlass):
    code, found = verdicts(windlass)
    assert code == 1
    assert [about for about, row in found.items() if row["severity"] == "error"] == ["Windlass", "nodes"]
    assert found["Windlass"]["fix"] == "windlass operator install"
    assert len(windlass("check")[1].splitlines()) < 8
    assert verdicts(windlass, "-n", "team")[1]["Windlass"]["fix"] == "windlass operator install -n team"


def test_all_missing_parts_are_listed_on_request(windlass):
    code, found = verdicts(windlass, "-v")
    assert code == 1
    assert (
        found["kinds"]["fix"] == found["permissions"]["fix"] == found["operator"]["fix"] == "windlass operator install"
    )


def test_a_dry_run_changes_nothing(windlass, api):
    code, out, err = windlass("install", "--dry-run")
    assert (code, out.count("would be created ")) == (0, len(installation_objects(Setup(IMAGE))))
    assert out.count("created") == out.count("would be created")
    assert err == "nothing was changed: this was a dry run\n"
    assert api(lambda client: client.get(DEFINITION))["items"] == []


def test_an_installation_creates_everything_and_a_second_one_changes_nothing(windlass, api):
    code, out, err = windlass("install", "--wait", "1")
    assert out.count("created") == len(installation_objects(Setup(IMAGE)))
    assert "waiting until the API server admits jobs" in err
    assert (code, "the operator is not ready after 1 s: it has no pods" in err) == (74, True)

    async def submit(client):  # a new kind is admitted some seconds after it is served
        kind = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob"}
        job = {**kind, "metadata": {"name": "first"}, "spec": {"command": ["train"], "image": "i"}}
        return await client.post(JOBS, job, dryRun="All")

    assert api(submit)["metadata"]["annotations"]["windlass.dev/user"]
    code, out, _ = windlass("install", "--wait", "0")
    assert (code, out.count("unchanged")) == (0, len(installation_objects(Setup(IMAGE))))


def test_an_upgrade_changes_only_what_is_new(windlass):
    code, out, _ = windlass("install", "--wait", "0", "--image", "registry.example/windlass:next")
    changed = [line for line in out.splitlines() if line.startswith("changed")]
    assert (code, changed) == (0, ["changed       deployment windlass-operator"])
    code, out, _ = windlass("install", "--dry-run")
    changed = [line for line in out.splitlines() if not line.startswith("unchanged ")]
    assert changed == ["would be changed deployment windlass-operator"]
    windlass("install", "--wait", "0")


def test_the_trainers_runtimes_are_installed_on_request_and_edited_ones_stay(windlass, api):
    code, out, _ = windlass("install", "--wait", "0", "--trainer")
    assert (code, out.count("created ")) == (0, len(trainer_objects()))
    assert "TrainJobs can name the runtimes torch-distributed, jax-distributed" in out
    assert out.endswith("the Kubeflow SDK finds the version of the trainer, v2.3.0, in kubeflow-system\n")
    image = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"

    async def edit(client):
        change = [{"op": "replace", "path": image, "value": "site:1"}]
        return await client.patch(f"{RUNTIMES}/torch-distributed", change, "json")

    edited = api(edit)
    code, out, _ = windlass("install", "--wait", "0", "--trainer")
    assert out.count("left as it is ") == len(standard_runtimes())
    assert api(lambda client: client.get(f"{RUNTIMES}/torch-distributed"))["spec"] == edited["spec"]
    public = api(lambda client: client.get("/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"))
    assert public["data"] == {"kubeflow_trainer_version": "v2.3.0"}


def test_a_check_reports_an_error_until_it_is_repaired(windlass, api):
    code, found = verdicts(windlass)
    assert code == 1
    assert {about for about, row in found.items() if row["severity"] == "error"} == {
        "operator",
        "leader",
        "queries",
        "nodes",
    }
    assert "no namespace can be deleted meanwhile" in found["queries"]["message"]

    now = datetime.now(UTC)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "windlass-operator", "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 600,
            "renewTime": now.isoformat().replace("+00:00", "Z"),
        },
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}

    async def mend(client):
        generation = (await client.get(DEPLOYMENT))["metadata"]["generation"]
        ready = {"observedGeneration": generation, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
        await client.patch(f"{DEPLOYMENT}/status", {"status": ready})
        await client.post(LEASE, lease)
        await client.patch(QUERIES, {"spec": {"service": None}})  # an API of the server itself is always available
        await client.post("/api/v1/nodes", node)
        status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch("/api/v1/nodes/n1/status", {"status": status})

    api(mend)
    code, found = verdicts(windlass)
    assert [row for row in found.values() if row["severity"] != "ok"] == []
    assert code == 0
    assert found["nodes"]["message"] == "1 nodes with 8 GPUs"

    late = (now - timedelta(hours=1)).strftime(MICRO_TIME)
    api(lambda client: client.patch(f"{LEASE}/windlass-operator", {"spec": {"renewTime": late}}))
    code, found = verdicts(windlass)
    assert (code, found["leader"]["severity"]) == (1, "error")


def test_a_check_names_an_operator_that_serves_the_same_kinds(windlass, api):
    container = {"name": "manager", "image": "ghcr.io/kubeflow/training-v1/training-operator:v1"}
    labels = {"control-plane": "manager"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training-operator", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    where = "/apis/apps/v1/namespaces/default/deployments"
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs/status"], "verbs": ["update"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "training"}
    account = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    made = (
        (f"{RBAC}/clusterroles", {"metadata": {"name": "training"}, "rules": [rule]}),
        (f"{RBAC}/clusterrolebindings", {"metadata": {"name": "training"}, "roleRef": role, "subjects": [account]}),
    )
    api(lambda client: client.post(where, deployment))
    try:
        _, unconfirmed = verdicts(windlass)  # any tenant can create this much
        for path, body in made:
            api(lambda client, path=path, body=body: client.post(path, body))
        code, found = verdicts(windlass)
    finally:
        for path, _ in made:
            api(lambda client, path=path: client.delete(f"{path}/training"))
        api(lambda client: client.delete(f"{where}/training-operator"))
    assert unconfirmed["other operators"]["severity"] == "ok"
    assert code == 1
    assert found["other operators"]["message"].startswith("the training operator (default/training-operator) serves Py")


def test_a_missing_permission_is_named_with_its_purpose(windlass, api):
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/windlass-operator"
    kept = [each for each in api(lambda client: client.get(role))["rules"] if each["resources"] != ["pods/binding"]]
    api(lambda client: client.patch(role, {"rules": kept}))
    code, found = verdicts(windlass)
    assert code == 1
    assert found["permissions"]["message"].endswith("may not create pods/binding, to bind pods to nodes")
    windlass("install", "--wait", "0")
    assert verdicts(windlass)[1]["permissions"]["severity"] == "ok"


def test_a_queue_with_a_missing_parent_is_named(windlass, api):
    queue = sample("Queue", "vision")
    api(lambda client: client.post(place(queue), queue))
    try:
        _, found = verdicts(windlass)
    finally:
        api(lambda client: client.delete(place(queue, "vision")))
    assert (found["queues"]["severity"], found["queues"]["fix"]) == ("error", "kubectl edit queue vision")
    assert "research" in found["queues"]["message"]


def test_foreign_objects_are_left_as_they_are_unless_they_are_taken_over(windlass, api):
    definition = f"{DEFINITION}/jaxjobs.kubeflow.org"
    foreign = {"metadata": {"labels": {"app.kubernetes.io/part-of": "kubeflow"}}}
    api(lambda client: client.patch(definition, foreign))
    _, out, _ = windlass("install", "--wait", "0", "-n", "default")
    left = [line for line in out.splitlines() if line.startswith("left as it is")]
    assert [line.split()[-1] for line in left] == ["jaxjobs.kubeflow.org", "default"]
    labels = api(lambda client: client.get("/api/v1/namespaces/default"))["metadata"]["labels"]
    assert "pod-security.kubernetes.io/enforce" not in labels
    assert verdicts(windlass)[1]["kinds"]["message"] == "jaxjobs.kubeflow.org is of another operator and has its rules"
    windlass("install", "--wait", "0", "--take-over")
    assert verdicts(windlass)[1]["kinds"]["severity"] == "ok"
    assert "deleted configmap kubeflow-trainer-public" in windlass("uninstall", "-n", "default")[1]
    assert api(lambda client: client.get("/api/v1/namespaces/default"))["status"]["phase"] == "Active"
    windlass("install", "--wait", "0")


def test_a_webhook_that_an_operator_has_left_is_named_with_the_command_that_deletes_it(windlass, api, plane):
    name = "validator.training-operator.kubeflow.org"
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "resources": ["pytorchjobs"]}
    rule |= {"operations": ["CREATE"]}
    service = {"namespace": "kubeflow", "name": "training-operator", "path": "/validate"}
    webhook = {"name": f"pytorchjob.{name}", "clientConfig": {"service": service}, "rules": [rule]}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    left = {"metadata": {"name": name}, "webhooks": [webhook]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    job = {**sample("PyTorchJob", "digits"), "metadata": {"name": "refused", "namespace": "default"}}
    api(lambda client: client.post(path, left))
    try:
        api(lambda client: until_refused(client, job, refused=True))
        code, found = verdicts(windlass)
        complaint = windlass("install", "--wait", "0", "--take-over")[2]
        assert (code, found["webhooks"]["severity"]) == (1, "error")
        command = found["webhooks"]["fix"]
        assert f"; {command}\n" in complaint
        assert any(each["metadata"]["name"] == name for each in api(lambda client: client.get(path))["items"])
        kubectl = [find("kubectl"), "--kubeconfig", plane.kubeconfig]
        subprocess.run([*kubectl, *command.split()[1:]], check=True, capture_output=True)
    except BaseException:
        api(lambda client: client.delete(f"{path}/{name}"))
        raise
    assert verdicts(windlass)[1]["webhooks"]["severity"] == "ok"
    api(lambda client: until_refused(client, job, refused=False))


async def until_refused(client, job, *, refused):
    """Waits until the API server refuses a job for a webhook without a server, or no longer does."""
    async with asyncio.timeout(strays.TIMEOUT_S * 3):
        while True:
            try:
                await client.post(place(job), job, dryRun="All")
                is_refused = False
            except ApiError as error:
                if "failed calling webhook" not in str(error):
                    raise
                is_refused = True
            if is_refused is refused:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("overlay", ["default", "no-crds", "podgroups", "dev"])
def test_kustomize_builds_every_overlay(overlay):
    kinds = [each["kind"] for each in kustomized(overlay)]
    assert kinds.count("Deployment") == 1


def test_kustomize_installs_the_same_objects_as_the_command():
    """All objects but two folders of their own: the default queue, and the policies for newer API servers."""
    apart = ("Queue", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    wanted = [each for each in installation_objects(Setup(IMAGE)) if each["kind"] not in apart]
    assert by_name(kustomized("default")) == by_name(wanted)


def kustomized(overlay):
    ran = subprocess.run(
        [find("kubectl"), "kustomize", KUSTOMIZE / "overlays" / overlay], capture_output=True, check=True
    )
    return list(yaml.load_all(ran.stdout, yaml.CSafeLoader))


def by_name(objects):
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_the_operators_pods_are_admitted_where_others_are_refused(api):
    """The namespace enforces the pod security standard `restricted`."""
    template = next(each for each in installation_objects(Setup(IMAGE)) if each["kind"] == "Deployment")["spec"][
        "template"
    ]
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    ours = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ours"}, "spec": template["spec"]}
    root = {**ours, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    api(lambda client: client.post(pods, ours, dryRun="All"))
    api(lambda client: add_default_account(client, NAMESPACE))
    with pytest.raises(ApiError, match=r'violates PodSecurity "restricted'):
        api(lambda client: client.post(pods, root, dryRun="All"))


def jobs_of_every_kind():
    """The smallest job of each kind, whose pods succeed after a moment. A v2beta1 MPIJob needs the Job controller."""
    done = Script(work=SECONDS).annotation()
    for kind in KINDS:
        if kind.version == "v1":
            job = whole(kind)
            job["metadata"]["name"] = kind.kind.lower()
            job["spec"][kind.specs][kind.lead]["template"]["metadata"] = {"annotations": done}
            yield job
    pod = {"metadata": {"annotations": done}}
    yield {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "short", "namespace": "default"},
        "spec": {"command": "torchrun train.py", "image": "i", "nodes": 2, "gpus": 8, "pod": pod},
    }


def test_the_operator_works_with_exactly_its_permissions_and_the_next_one_continues(windlass, plane, api, tmp_path):
    """The first operator lacks the optional rights for MPIJobs of version v1."""
    windlass("install", "--wait", "0", "--mpijob-v1")
    jobs = list(jobs_of_every_kind())
    log = tmp_path / "operator.log"

    async def story(client):
        await clear(client, LEASES)
        account = await plane.service_account(NAMESPACE, "windlass-operator")
        codes = []
        async with FakeKubelets(plane.admin) as fake:
            await fake.add_nodes(["a", "b"], gpus=8)
            for job in jobs:
                await client.post(place(job), job)
            [mpijob] = (job for job in jobs if job["kind"] == "MPIJob")
            granted = await client.get(MPIJOB_V1)
            await client.delete(MPIJOB_V1)
            try:
                others = [until_phase(client, job, "Running") for job in jobs if job is not mpijob]
                async with operator(account, log, codes) as running, asyncio.timeout(strays.TIMEOUT_S * 6):
                    await reached(running, until_rights_are_missed(client, mpijob), *others)
                binding = {key: granted[key] for key in ("roleRef", "subjects")}
                about = {key: granted["metadata"][key] for key in ("name", "labels")}
                await client.post(MPIJOB_V1.rpartition("/")[0], {"metadata": about, **binding})
                async with operator(account, log, codes) as running, asyncio.timeout(strays.TIMEOUT_S * 6):
                    await reached(running, *(until_phase(client, job, "Succeeded") for job in jobs))
            finally:
                for job in jobs:
                    await client.delete(place(job, job["metadata"]["name"]))
        return codes

    assert (api(story), "forbidden" in log.read_text().lower()) == ([0, 0], False), log.read_text()


async def reached(running, *goals):
    """Wait for all goals, or for the early end of the operator."""
    goal = asyncio.gather(*goals)
    await asyncio.wait([goal, asyncio.create_task(running.wait())], return_when="FIRST_COMPLETED")
    goal.result()


async def until_rights_are_missed(client, job):
    """Wait until the job's conditions name the option of the installation that it needs."""
    while True:
        found = await client.get(place(job, job["metadata"]["name"]))
        conditions = (found.get("status") or {}).get("conditions") or []
        if any("windlass operator install --mpijob-v1" in each["message"] for each in conditions):
            return
        await asyncio.sleep(0.1)


@asynccontextmanager
async def operator(account, log, codes):
    """Run a command until the block ends; its exit code must be in `codes`."""
    program = Path(sys.executable).with_name("windlass")
    history = f"sqlite:///{log.parent}/history.sqlite"
    words = (
        "operator",
        "run",
        "--kubeconfig",
        account,
        "--metrics-port",
        "0",
        "--queries-port",
        "0",
        "--dashboard-port",
        "0",
        "--history",
        history,
    )
    with log.open("ab") as out:
        running = await asyncio.create_subprocess_exec(program, *words, stdout=out, stderr=out)
    try:
        yield running
    finally:
        if running.returncode is None:
            running.terminate()
        codes.append(await running.wait())


async def until_phase(client, job, phase):
    """Wait for a state of the job. Some jobs succeed early, and none may fail."""
    while True:
        found = await client.get(place(job, job["metadata"]["name"]))
        last_phase = (found.get("status") or {}).get("windlass", {}).get("phase")
        assert last_phase != "Failed", found["status"]
        if last_phase in (phase, "Succeeded"):
            return
        await asyncio.sleep(0.1)


PODS = "/api/v1/namespaces/default/pods"


async def create_pod(client, node):
    labels = {"windlass.dev/generation": "1"}
    spec = {"schedulerName": "windlass", "containers": [{"name": "main", "image": "example.com/job:1"}]}
    spec |= {"nodeName": node} if node else {}
    await client.post(PODS, {"metadata": {"name": f"pod-{node or 'waiting'}", "labels": labels}, "spec": spec})


def test_uninstalling_keeps_jobs_unless_their_deletion_is_requested(windlass, api):
    job = sample("PyTorchJob", "digits")
    api(lambda client: client.post(place(job), job))
    for node in ("", "n1"):
        api(partial(create_pod, node=node))

    code, out, _ = windlass("uninstall")
    assert code == 0
    assert "pods that waited for a node; another operator of the kind creates them again" in out
    names = [pod["metadata"]["name"] for pod in api(lambda client: client.get(PODS))["items"]]
    assert ("pod-n1" in names, "pod-waiting" in names) == (True, False)
    assert "deleted deployment windlass-operator" in out
    assert "kept: the kinds, and 1 Queue, 1 PyTorchJob" in out
    assert api(lambda client: client.get(place(job, "digits")))["metadata"]["name"] == "digits"
    with pytest.raises(ApiError, match="NotFound"):
        api(lambda client: client.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/windlass-operator"))

    code, _, err = windlass("uninstall", "--delete-jobs")
    assert (code, "add --yes" in err) == (2, True)

    code, out, _ = windlass("uninstall", "--delete-jobs", "--yes")
    assert code == 0
    assert "the kind pytorchjobs.kubeflow.org, with all its objects" in out
