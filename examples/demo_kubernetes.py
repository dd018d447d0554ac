"""The demo on Kubernetes: a control plane, two real nodes, and the jobs of the README, one of which loses a pod.

`make demo-kubernetes` runs it; it needs Linux and root, because the nodes run real containers. The cluster is that
of `windlass.controlplane`: its programs are built once, which takes minutes, and kept. Everything else is in a
temporary folder, which is removed at the end, also after Ctrl-C. Every step is checked: the exit code is 0 only if all
of them had the described result.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from narration import DemoFailedError, expect, explain, follow, output_of, show, wait_until
from windlass.controlplane import images, real_nodes
from windlass.controlplane.build import BuildError, find, find_all
from windlass.controlplane.programs import REAL_NODES

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

MIN_ACCURACY = 0.97
"""Required share of correctly classified test images."""
TIMEOUT_S = 900
"""Time after which the demo fails, without building programs; it takes one to three minutes."""
STEP_TIMEOUT_S = 240.0
"""Limit of one wait, with room for a machine under load."""
KILL_AFTER = "epoch 4/"
"""Text in the output of rank 0 after which the other pod is killed."""
IMAGES = ("windlass-examples:1", "alpine:3.10")
"""Images on the nodes. The second is that of the init container in which workers of a PyTorchJob wait."""

CHECKS = {
    "two real nodes": False,
    "the operator, under its own role and the restricted pod security standard": False,
    "a gang start: every pod bound at once, each on a node of its own": False,
    "a killed pod ends its whole gang, and generation 2 continues from the checkpoint": False,
    "the PyTorchJob succeeds, with the accuracy of the laptop": False,
    "an MPIJob: four ranks on two workers over SSH": False,
    "windlass run --on kubernetes, with the code shipped": False,
    "no process and no file left behind": False,
}


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGALRM, fail_on_timeout)
    began = time.monotonic()
    try:
        prepare()
        signal.alarm(TIMEOUT_S)
        with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
            network = run_demo(Path(folder))
        wait_until("the removal of all processes and files", lambda: not left_behind(folder, network), STEP_TIMEOUT_S)
        check("no process and no file left behind", held=True)
        signal.alarm(0)
    except (DemoFailedError, BuildError, RuntimeError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ninterrupted; no process is left behind", file=sys.stderr)
        return 130
    explain(f"Checks, after {time.monotonic() - began:.0f} seconds:")
    for name, passed in CHECKS.items():
        print(f"  {'ok ' if passed else 'NOT'}  {name}")
    if not all(CHECKS.values()):
        return 1
    print("More examples: README.md. A cluster that stays: .venv/bin/python tools/control_plane.py up --real")
    return 0


def prepare() -> None:
    """Check the requirements and build the programs. Raises DemoFailedError, BuildError."""
    missing = real_nodes.missing_requirement()
    expect(not missing, f"{missing}. The jobs themselves need neither: `make demo` shows them on any machine")
    find_all([*REAL_NODES, "kubectl"])
    os.chdir(ROOT)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{find('kubectl').parent}{os.pathsep}{os.environ['PATH']}"


def run_demo(folder: Path) -> int:
    """Run all steps and return the number of the network that the nodes were on."""
    explain("1. A cluster: etcd, an API server, the controllers, and two nodes with a kubelet and containerd each.")
    began = time.monotonic()
    print("  … etcd, API server, controller-manager, two kubelets (half a minute where little else runs)", flush=True)
    with contextlib.closing(real_nodes.start(folder / "cluster", gpus=0)) as real:
        print(f"  ready after {time.monotonic() - began:.0f} s")
        real.know_images(*IMAGES)
        use_cluster(real.plane.kubeconfig, folder)
        check("two real nodes", show("kubectl get nodes").count(" Ready ") == 2, "the nodes are not ready")
        install()
        create_volume(folder / "checkpoints")
        train()
        compute_pi()
        ship_code()
        explain("6. The end. The nodes stop, with everything that runs on them.")
        return real.wire.number


def use_cluster(kubeconfig: Path, folder: Path) -> None:
    """Point all following commands at this cluster, and at no other."""
    os.environ |= {"KUBECONFIG": str(kubeconfig), "WINDLASS_CONFIG": f"{folder}/config.yaml"}
    for name in ("WINDLASS_ON", "WINDLASS_OPERATOR"):
        os.environ.pop(name, None)


def install() -> None:
    explain(
        "2. Windlass. One deployment is operator and gang scheduler; it installs the kinds of Kubeflow and its own."
    )
    command = f"windlass operator install --image {images.OPERATOR} --replicas 1"
    print(f"$ {command}", flush=True)
    changes = output_of(f"{command} --wait 0")
    kinds = re.findall(r"created +customresourcedefinition (\S+)", changes)
    print(f"created {changes.count('created ')} objects, among them the kinds {', '.join(sorted(kinds))}")
    wait_until("the operator to be ready", operator_is_ready, STEP_TIMEOUT_S)
    show("windlass operator check")
    check("the operator, under its own role and the restricted pod security standard", held=True)


def operator_is_ready() -> bool:
    return "Available" in {
        each["type"] for each in true_conditions(read("-n windlass-system deployment/windlass-operator"))
    }


def create_volume(checkpoints: Path) -> None:
    """Create the volume and the claim for checkpoints that the jobs' files name, as an administrator would."""
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "hostPath": {"path": str(checkpoints), "type": "DirectoryOrCreate"},
        "claimRef": {"namespace": "default", "name": "checkpoints"},
    }
    claim = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    about = {"apiVersion": "v1", "metadata": {"name": "checkpoints"}}
    items = [
        {**about, "kind": "PersistentVolume", "spec": volume},
        {**about, "kind": "PersistentVolumeClaim", "spec": claim},
    ]
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    subprocess.run(["kubectl", "apply", "-f", "-"], input=both, text=True, check=True, capture_output=True)


def train() -> None:
    explain("3. The PyTorchJob of the README: handwritten digits, one master and one worker, in Kubeflow's YAML.")
    show("kubectl create configmap digits --from-file=examples/digits/train.py")
    show("kubectl apply -f examples/kubernetes/digits.yaml")
    wait_until("the gang to run", lambda: has_condition("pytorchjob/digits", "Running"), STEP_TIMEOUT_S)
    show("kubectl get pods -o wide")
    check_gang_start()
    accuracy = train_and_kill_pod()
    wait_until("the job to succeed", lambda: has_condition("pytorchjob/digits", "Succeeded"), STEP_TIMEOUT_S)
    show("windlass status digits --on kubernetes")
    show("kubectl get pytorchjob digits")
    show_events("PyTorchJob", "digits")
    status = read("pytorchjob/digits")["status"]
    expect(status["windlass"]["generation"] == 2, f"the job had {status['windlass']['generation']} generations, not 2")
    expect(status["failures"]["infrastructure"] == 1, "the kill was not counted as an infrastructure failure")
    expect(status["failures"]["user"] == 0, "the kill was counted as a failure of the program")
    check(
        "the PyTorchJob succeeds, with the accuracy of the laptop",
        accuracy >= MIN_ACCURACY and status["replicaStatuses"]["Worker"].get("succeeded") == 1,
        f"an accuracy of {accuracy}, below {MIN_ACCURACY}",
    )


def check_gang_start() -> None:
    pods = members("digits")
    expect(len(pods) == 2, f"{len(pods)} pods, not two")
    bound = [transition_time(pod, "PodScheduled") for pod in pods]
    check(
        "a gang start: every pod bound at once, each on a node of its own",
        max(bound) - min(bound) <= 1 and len({pod["spec"]["nodeName"] for pod in pods}) == 2,
        "the pods were not bound together, or are on one node",
    )


def train_and_kill_pod() -> float:
    """Follow the log of rank 0, kill the other pod in the middle, and return the final accuracy."""
    killed = False
    for line in follow("kubectl logs -f digits-master-0"):
        if KILL_AFTER in line and not killed:
            kill_pod()
            killed = True
    expect(killed, "the training ended before a pod could be killed")
    wait_until("generation 2 to run", lambda: len(members("digits", 2, "Running")) == 2, STEP_TIMEOUT_S)
    explain("The gang has started whole again and continues from its checkpoint, not from the beginning.")
    resumed, accuracy = False, 0.0
    for line in follow("kubectl logs -f digits-master-0"):
        if match := re.search(r"resumed after epoch (\d+)", line):
            resumed = int(match[1]) > 0
        if match := re.search(r"test accuracy (\d\.\d+)", line):
            accuracy = float(match[1])
    check(
        "a killed pod ends its whole gang, and generation 2 continues from the checkpoint",
        resumed,
        "the second generation did not resume from a checkpoint",
    )
    return accuracy


def kill_pod() -> None:
    """Send SIGKILL to the worker's process from outside its container."""
    status = read("pod/digits-worker-0")["status"]["containerStatuses"][0]
    found = pids_in(status["containerID"].rpartition("/")[2])
    expect(bool(found), "the worker's process was not found")
    explain(
        "A lost pod. The demo kills the worker's process with SIGKILL. The master is stopped too, and when no pod of "
        "generation 1 is left, the whole gang starts again as generation 2. (The master's traceback, which reports the "
        "closed connection, is omitted here.)"
    )
    print(f"$ kill -9 {found[0]}", flush=True)
    os.kill(found[0], signal.SIGKILL)


def compute_pi() -> None:
    explain("4. An MPIJob of the MPI operator's format: a launcher reaches two workers over SSH.")
    show("kubectl create configmap pi --from-file=examples/kubernetes/pi.py")
    show("kubectl apply -f examples/kubernetes/pi.yaml")
    wait_until("the MPIJob to succeed", lambda: has_condition("mpijob/pi", "Succeeded"), STEP_TIMEOUT_S)
    output = show("kubectl logs -l training.kubeflow.org/job-name=pi,training.kubeflow.org/job-role=launcher")
    show("kubectl get mpijob pi")
    workers = re.findall(r"rank \d of 4 on (pi-worker-\d)", output)
    check(
        "an MPIJob: four ranks on two workers over SSH",
        sorted(workers) == ["pi-worker-0"] * 2 + ["pi-worker-1"] * 2 and "pi is about 3.1" in output,
        "not two ranks on each of two workers",
    )


def ship_code() -> None:
    explain("5. The same command line as on a laptop, with the same output. The folder with the code is sent along.")
    command = "windlass run --on kubernetes --image windlass-examples:1 --ship examples/digits -N 2 --cpus 0.3"
    output = "".join(follow(f"{command} -- python train.py --epochs 2"))
    show("windlass history --on kubernetes")
    check(
        "windlass run --on kubernetes, with the code shipped",
        "epoch 2/2" in output and "succeeded" in output,
        "the shipped job did not succeed",
    )


def show_events(kind: str, name: str) -> None:
    """Print the events of the job in order."""
    chosen = f"--field-selector=regarding.kind={kind},regarding.name={name}"
    print("$ kubectl events", flush=True)
    events = json.loads(output_of(f"kubectl get events.events.k8s.io -o json {chosen}"))["items"]
    for each in sorted(events, key=lambda event: event["eventTime"]):
        print(f"  {each['eventTime'][11:19]}  {each['type']:<8} {each['reason']:<22} {each['note']}")


def read(name: str) -> dict:
    return json.loads(output_of(f"kubectl get {name} -o json"))


def has_condition(name: str, kind: str) -> bool:
    """Whether the condition of the object is true. Raises DemoFailedError if the job has failed."""
    true = {each["type"]: each.get("message", "") for each in true_conditions(read(name))}
    expect("Failed" not in true, f"{name} has failed: {true.get('Failed')}")
    return kind in true


def true_conditions(resource: dict) -> Iterator[dict]:
    return (each for each in resource.get("status", {}).get("conditions", ()) if each["status"] == "True")


def members(job: str, generation: int = 1, phase: str = "") -> list[dict]:
    """Return the pods of a generation; only those in `phase`, if it is given."""
    labels = f"training.kubeflow.org/job-name={job},windlass.dev/generation={generation}"
    pods = read(f"pods -l {labels}")["items"]
    return [pod for pod in pods if phase in ("", pod["status"]["phase"])]


def transition_time(pod: dict, kind: str) -> float:
    """Return the time in seconds at which a condition of a pod became true."""
    at = next(each["lastTransitionTime"] for each in true_conditions(pod) if each["type"] == kind)
    return time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ"))


def pids_in(text: str, file: str = "cgroup") -> list[int]:
    """Return the processes of this machine, its nodes included, with a text in a file of theirs below /proc.

    By default that is the path of their cgroup, which has the id of the container.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if text in (folder / file).read_text():
                found.append(int(folder.name))
    return sorted(found)


def left_behind(folder: str, network: int) -> list[object]:
    """Return what is left of the cluster: servers, containers, the network bridge, files."""
    processes = pids_in(folder, "cmdline") + pids_in(f"{real_nodes.PREFIX}{network}-")
    return [*processes, *(path for path in (f"/sys/class/net/wl{network}", folder) if Path(path).exists())]


def check(name: str, held: bool = False, otherwise: str = "") -> None:  # noqa: FBT001, FBT002 - reads as a sentence
    """Mark one of CHECKS as passed. Raises DemoFailedError with `otherwise` if it does not hold."""
    expect(held, otherwise)
    CHECKS[name] = True


def fail_on_timeout(_number: int, _frame: FrameType | None) -> None:
    raise DemoFailedError(f"not finished after {TIMEOUT_S} seconds")


if __name__ == "__main__":
    sys.exit(main())
