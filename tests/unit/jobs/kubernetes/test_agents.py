"""Pods whose ranks an agent starts: their additions, their command, and refused manifests."""

import pytest
import yaml

from windlass.core.model.job import Launcher
from windlass.jobs.description.agent_command import under_agent
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.pods.agent_pods import FILE, FOLDER
from windlass.jobs.kubernetes.settings import Settings

SETTINGS = Settings(
    agent_image="windlass:9", agent_endpoint="operator.windlass-system.svc:8081", agent_authority="a certificate"
)
TOKEN_FOLDER = "/var/run/secrets/windlass.dev/agent"  # noqa: S105 - a path
TOKEN_MOUNT = {"name": "windlass-agent-token", "mountPath": TOKEN_FOLDER, "readOnly": True}


def training(**fields):
    spec = {"image": "a:1", "command": "python train.py --lr 1", "nodes": 2, "procs": 2, **fields}
    about = {"name": "digits", "namespace": "team"}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec}


def pytorch(command, annotation="inject", **spec):
    container = {"name": "pytorch", "image": "a:1", **command}
    worker = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    about = {"name": "digits", "namespace": "team", "annotations": {"windlass.dev/agent": annotation}}
    replicas = {"pytorchReplicaSpecs": {"Worker": worker}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": about, "spec": {**spec, **replicas}}


def pods(manifest, settings=SETTINGS):
    parsed = read(manifest, settings)
    assert not isinstance(parsed, Fault), str(parsed)
    return [member.pod for member in members(parsed, 1)]


def main_of(pod):
    return pod["spec"]["containers"][0]


def variables_of(pod):
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in main_of(pod)["env"]}


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        ("python train.py --lr 1", f"python {FILE} -- train.py --lr 1"),
        ("/opt/bin/python3.11 -u train.py", f"/opt/bin/python3.11 {FILE} -- train.py"),
        ("python -m pkg.train --lr 1", f"python {FILE} --module -- pkg.train --lr 1"),
        ("torchrun --nproc-per-node 4 train.py", f"python3 {FILE} --nproc-per-node 4 train.py"),
        ("/opt/conda/bin/torchrun train.py", f"/opt/conda/bin/python3 {FILE} train.py"),
        ("/opt/venv/bin/windlass agent train.py", f"/opt/venv/bin/python3 {FILE} train.py"),
        ("/usr/local/bin/torchrun train.py", f"python3 {FILE} train.py"),  # Debian's python3 is in /usr/bin
        ("python3 -m torch.distributed.run --standalone a.py", f"python3 {FILE} --standalone a.py"),
        ("windlass agent --max-restarts 3 train.py", f"python3 {FILE} --max-restarts 3 train.py"),
    ],
)
def test_a_command_that_starts_one_script_gets_the_agent(words, becomes):
    assert " ".join(under_agent(words.split(), (FILE,))) == becomes


@pytest.mark.parametrize("words", ["sh -c 'torchrun train.py'", "python -c 'print(1)'", "./train", "python -O a.py"])
def test_any_other_command_is_refused_with_an_example(words):
    fault = read(training(command=words, agent="inject"), SETTINGS)
    assert isinstance(fault, Fault)
    assert "spec.command" in str(fault)
    assert "python SCRIPT, python -m MODULE, torchrun or windlass agent" in str(fault)


def test_an_init_container_brings_the_agent_into_a_volume_of_the_pod():
    pod = pods(training(agent="inject"))[1]
    (packer,) = pod["spec"]["initContainers"]
    assert (packer["image"], packer["args"]) == ("windlass:9", ["agent", "pack", "--to", FILE])
    assert "command" not in packer  # the image's own entry point is windlass
    assert packer["securityContext"]["runAsNonRoot"]
    assert packer["securityContext"]["readOnlyRootFilesystem"]
    assert {"name": "TMPDIR", "value": FOLDER} in packer["env"]  # the only place where it may write
    file_mount = {"name": "windlass-agent", "mountPath": FOLDER}
    assert packer["volumeMounts"] == [file_mount]
    assert main_of(pod)["volumeMounts"] == [file_mount, TOKEN_MOUNT]
    assert pod["spec"]["volumes"][0] == {"name": "windlass-agent", "emptyDir": {}}
    assert main_of(pod)["command"] == ["python", FILE, "--", "train.py", "--lr", "1"]


def test_each_pod_gets_its_identity_for_the_operator_and_keeps_torchruns_variables():
    pod = pods(training(agent="inject"))[1]
    variables = variables_of(pod)
    assert variables["WINDLASS_CONTROLLER"] == "operator.windlass-system.svc:8081"
    assert variables["WINDLASS_AGENT_NAME"] == "team/digits-worker-1"
    assert variables["WINDLASS_CONTROLLER_AUTHORITY"] == "a certificate"
    assert variables["WINDLASS_AGENT_TOKEN_FILE"] == f"{TOKEN_FOLDER}/token"
    assert (variables["PET_NPROC_PER_NODE"], variables["PET_NODE_RANK"]) == ("2", "1")


def test_an_agent_proves_itself_by_a_token_of_its_pod_for_the_operator_alone():
    pod = pods(training(agent="image"))[1]
    token = {"audience": "agents.windlass.dev", "expirationSeconds": 3600, "path": "token"}
    sources = [{"serviceAccountToken": token}]
    assert pod["spec"]["volumes"] == [{"name": "windlass-agent-token", "projected": {"sources": sources}}]
    assert main_of(pod)["volumeMounts"] == [TOKEN_MOUNT]
    assert "annotations" not in pod["metadata"]


def test_agents_without_an_operator_lead_themselves():
    pod = pods(training(agent="inject"), Settings())[0]
    assert "WINDLASS_CONTROLLER" not in variables_of(pod)
    assert [each["name"] for each in pod["spec"]["volumes"]] == ["windlass-agent"]


def test_an_image_that_has_windlass_needs_no_init_container():
    by_agent, by_launcher = pods(training(agent="image"))[0], pods(training(launcher="agent"))[0]
    for pod in (by_agent, by_launcher):
        assert main_of(pod)["command"] == ["python", "-m", "windlass.agent", "--", "train.py", "--lr", "1"]
        assert "initContainers" not in pod["spec"]
        assert "WINDLASS_CONTROLLER" in variables_of(pod)


def test_the_agent_takes_the_launchers_place_and_another_one_is_refused():
    assert read(training(agent="inject"), SETTINGS).job.launcher is Launcher.AGENT
    fault = read(training(agent="inject", launcher="plain"), SETTINGS)
    assert "launcher plain leaves nothing to the agent" in str(fault)


def test_requests_of_the_init_container_count_on_the_node():
    job = read(training(agent="inject", cpus=0, gpus=1), SETTINGS).job
    assert (job.roles[0].resources["cpu"], job.roles[0].resources["memory"]) == (250, 256 << 20)


def test_a_pod_of_the_class_guaranteed_stays_in_it():
    (packer,) = pods(training(agent="inject"))[0]["spec"]["initContainers"]
    assert packer["resources"]["requests"] == packer["resources"]["limits"]


def test_a_pytorchjob_requests_the_agent_by_an_annotation():
    pod = pods(pytorch({"command": ["torchrun"], "args": ["train.py"]}, nprocPerNode="2"))[1]
    assert main_of(pod)["command"] == ["python3", FILE, "train.py"]
    assert "args" not in main_of(pod)
    assert pod["spec"]["initContainers"][0]["name"] == "windlass-agent"
    assert (variables_of(pod)["WINDLASS_AGENT_NAME"], variables_of(pod)["PET_NPROC_PER_NODE"]) == (
        "team/digits-worker-1",
        "2",
    )


def test_arguments_alone_stay_arguments_of_the_images_entry_point():
    pod = pods(pytorch({"args": ["torchrun", "train.py"]}))[0]
    assert main_of(pod)["args"] == ["python3", FILE, "train.py"]
    assert "command" not in main_of(pod)


def test_a_pytorchjobs_plain_script_stays_one_process_a_pod():
    pod = pods(pytorch({"command": ["python", "train.py"]}))[0]
    assert main_of(pod)["command"] == ["python", FILE, "--nproc-per-node=1", "--", "train.py"]


@pytest.mark.parametrize(("command", "annotation"), [({}, "inject"), ({"command": ["python", "a.py"]}, "please")])
def test_a_pytorchjob_that_cannot_have_an_agent_is_refused_with_the_field(command, annotation):
    fault = read(pytorch(command, annotation), SETTINGS)
    assert isinstance(fault, Fault)
    assert yaml.safe_dump(str(fault))


def test_a_kind_without_agents_causes_a_warning():
    manifest = training(procs=1)
    manifest["metadata"]["annotations"] = {"windlass.dev/agent": "inject"}
    (warning,) = read(manifest, SETTINGS).warnings
    assert warning.endswith("has no effect on this kind; write agent into the spec")


def in_cluster(manifest, settings=SETTINGS):
    """Variables of the first pod and the names of Secrets of a job that the API server has accepted."""
    manifest["metadata"]["uid"] = "u"
    manifest["spec"] = {name: value for name, value in manifest["spec"].items() if value is not None}
    parsed = read(manifest, settings)
    assert not isinstance(parsed, Fault), str(parsed)
    secrets = [each["metadata"]["name"] for each in dependent_objects(parsed, ()) if each["kind"] == "Secret"]
    return variables_of(members(parsed, 1)[0].pod), secrets


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"launcher": "torchrun"}, SETTINGS),
        ({"launcher": "torchrun", "nodes": 1, "procs": 2}, SETTINGS),
        ({"launcher": "torchrun", "nodes": None, "procs": 1, "elastic": {"min": 1, "max": 2}}, SETTINGS),
        ({"agent": "inject"}, Settings()),
    ],
)
def test_ranks_of_a_job_share_a_secret_of_the_job(fields, settings):
    variables, (name,) = in_cluster(training(**fields), settings)
    assert variables["WINDLASS_GANG_SECRET"] == {"secretKeyRef": {"name": name, "key": "secret"}}
    assert name.startswith("digits-gang-")


@pytest.mark.parametrize(
    "fields",
    [{"agent": "inject"}, {"launcher": "torchrun", "nodes": 1, "procs": 1}],
    ids=["the operator gives them one", "there is one rank"],
)
def test_other_jobs_have_no_secret(fields):
    variables, secrets = in_cluster(training(**fields))
    assert "WINDLASS_GANG_SECRET" not in variables
    assert secrets == []


def test_a_secret_in_the_job_itself_is_left_to_it():
    own = {"env": {"WINDLASS_GANG_SECRET": "s" * 64}, "launcher": "torchrun"}
    assert in_cluster(training(**own))[0]["WINDLASS_GANG_SECRET"] == "s" * 64


@pytest.mark.parametrize("manifest", [training(agent="inject"), pytorch({"command": ["python", "train.py"]})])
def test_pods_of_a_job_in_a_cluster_have_its_uid_and_generation(manifest):
    manifest["metadata"]["uid"] = "0f-3"
    pod = pods(manifest)[1]
    found = [each for each in main_of(pod)["env"] if each["name"] in ("WINDLASS_JOB_UID", "WINDLASS_GENERATION")]
    assert sorted((each["name"], each["value"]) for each in found) == [
        ("WINDLASS_GENERATION", "1"),
        ("WINDLASS_JOB_UID", "0f-3"),
    ]
