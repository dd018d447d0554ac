"""The demo on Kubernetes: a control plane, two real nodes, and the jobs of the README, one of which loses a pod.

`make demo-kubernetes` runs it; Linux and root, since the nodes run real containers. The cluster is the one of the tests
(tests/kubernetes/controlplane): its programs are built once, which takes minutes, and kept. Everything else is in a
temporary folder and gone afterwards, also after Ctrl-C. It checks what it shows: the exit code is 0 only if all of it
really happened.
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

from narration import NotAsShownError, expect, follow, output_of, show, tell, until

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "tests/kubernetes"))

from controlplane import images, real_nodes  # noqa: E402 - it is where the tests are
from controlplane.build import BuildError, find, find_all  # noqa: E402
from controlplane.programs import REAL_NODES  # noqa: E402

GOAL = 0.97
"""Share of the test images to be told right."""
PATIENCE = 900
"""Seconds after which the demo gives up, the building of programs apart; it takes one to three minutes."""
LONG = 240.0
"""Seconds that one thing may take on a machine that has much else to do."""
LOST_AFTER = "epoch 4/"
"""A pod is killed when rank 0 has printed this."""
IMAGES = ("windlass-examples:1", "alpine:3.10")
"""The second is what workers of a PyTorchJob wait with."""

SEEN = {
    "two real nodes": False,
    "the operator, under its own role and the restricted pod security standard": False,
    "a gang start: every pod bound at once, each on a node of its own": False,
    "a killed pod ends its whole gang, and generation 2 goes on from the checkpoint": False,
    "the PyTorchJob succeeds, with the accuracy of the laptop": False,
    "an MPIJob: four ranks on two workers over SSH": False,
    "windlass run --on kubernetes, with the code shipped": False,
    "nothing left behind": False,
}


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGALRM, give_up)
    began = time.monotonic()
    try:
        prepare()
        signal.alarm(PATIENCE)
        with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
            wire = the_whole_story(Path(folder))
        until("everything to be gone", lambda: not left_behind(folder, wire), LONG)
        see("nothing left behind", held=True)
        signal.alarm(0)
    except (NotAsShownError, BuildError, RuntimeError) as trouble:
        print(f"\nThe demo failed: {trouble}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing is left behind", file=sys.stderr)
        return 130
    tell(f"What was seen, in {time.monotonic() - began:.0f} seconds:")
    for what, seen in SEEN.items():
        print(f"  {'ok ' if seen else 'NOT'}  {what}")
    if not all(SEEN.values()):
        return 1
    print("README.md goes on from here; a cluster to play with: .venv/bin/python tools/control_plane.py up --real")
    return 0


def prepare() -> None:
    """What must be there before anything starts. Raises NotAsShownError, BuildError."""
    lacking = real_nodes.missing_requirement()
    expect(not lacking, f"{lacking}. The jobs themselves need neither: `make demo` shows them on any machine")
    find_all([*REAL_NODES, "kubectl"])
    os.chdir(ROOT)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{find('kubectl').parent}{os.pathsep}{os.environ['PATH']}"


def the_whole_story(folder: Path) -> int:
    """Returns the number of the wire that the nodes were on."""
    tell("1. A cluster: etcd, an API server, the controllers, and two nodes with a kubelet and containerd each.")
    began = time.monotonic()
    print("  … etcd, API server, controller-manager, two kubelets (half a minute where little else runs)", flush=True)
    with contextlib.closing(real_nodes.start(folder / "cluster", gpus=0)) as real:
        print(f"  ready after {time.monotonic() - began:.0f} s")
        real.know_images(*IMAGES)
        use(real.plane.kubeconfig, folder)
        see("two real nodes", show("kubectl get nodes").count(" Ready ") == 2, "the nodes are not ready")
        install()
        provide(folder / "checkpoints")
        train()
        throw_darts()
        run_from_here()
        tell("6. The end. The nodes go down with all that ran on them.")
        return real.wire.number


def use(kubeconfig: Path, folder: Path) -> None:
    """Every command from here on is about this cluster, and knows nothing of any other."""
    os.environ |= {"KUBECONFIG": str(kubeconfig), "WINDLASS_CONFIG": f"{folder}/config.yaml"}
    for name in ("WINDLASS_ON", "WINDLASS_OPERATOR"):
        os.environ.pop(name, None)


def install() -> None:
    tell("2. Windlass. One deployment is operator and gang scheduler; it brings the kinds that you know.")
    command = f"windlass operator install --image {images.OPERATOR} --replicas 1"
    print(f"$ {command}", flush=True)
    changes = output_of(f"{command} --wait 0")
    kinds = re.findall(r"created +customresourcedefinition (\S+)", changes)
    print(f"created {changes.count('created ')} objects, among them the kinds {', '.join(sorted(kinds))}")
    until("the operator to be ready", operator_is_ready, LONG)
    show("windlass operator check")
    see("the operator, under its own role and the restricted pod security standard", held=True)


def operator_is_ready() -> bool:
    return "Available" in {each["type"] for each in told_true(read("-n windlass-system deployment/windlass-operator"))}


def provide(checkpoints: Path) -> None:
    """What the jobs' files name: their programs, and a claim for checkpoints, as an administrator would provide it."""
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
    tell("3. The README's PyTorchJob: the digits, a master and a worker, YAML as people have it.")
    show("kubectl create configmap digits --from-file=examples/digits/train.py")
    show("kubectl apply -f examples/kubernetes/digits.yaml")
    until("the gang to run", lambda: condition("pytorchjob/digits", "Running"), LONG)
    show("kubectl get pods -o wide")
    check_the_gang_start()
    accuracy = train_and_lose_a_pod()
    until("the job to succeed", lambda: condition("pytorchjob/digits", "Succeeded"), LONG)
    show("windlass status digits --on kubernetes")
    show("kubectl get pytorchjob digits")
    show_events("PyTorchJob", "digits")
    status = read("pytorchjob/digits")["status"]
    expect(status["windlass"]["generation"] == 2, f"it took {status['windlass']['generation']} generations, not 2")
    expect(status["failures"]["infrastructure"] == 1, "the kill was not counted as a failure of infrastructure")
    expect(status["failures"]["user"] == 0, "the kill was held against the program")
    see(
        "the PyTorchJob succeeds, with the accuracy of the laptop",
        accuracy >= GOAL and status["replicaStatuses"]["Worker"].get("succeeded") == 1,
        f"an accuracy of {accuracy}, not {GOAL}",
    )


def check_the_gang_start() -> None:
    pods = members("digits")
    expect(len(pods) == 2, f"{len(pods)} pods, not two")
    bound = [moment(pod, "PodScheduled") for pod in pods]
    see(
        "a gang start: every pod bound at once, each on a node of its own",
        max(bound) - min(bound) <= 1 and len({pod["spec"]["nodeName"] for pod in pods}) == 2,
        "the pods were not bound together, or are on one node",
    )


def train_and_lose_a_pod() -> float:
    """Follow the log of rank 0; kill the other pod on the way. Returns the accuracy that it ends with."""
    killed = False
    for line in follow("kubectl logs -f digits-master-0"):
        if LOST_AFTER in line and not killed:
            lose_a_pod()
            killed = True
    expect(killed, "the training was over before a pod could be killed")
    until("generation 2 to run", lambda: len(members("digits", 2, "Running")) == 2, LONG)
    tell("The gang started whole once more, and goes on from its checkpoint, not from the beginning.")
    resumed, accuracy = False, 0.0
    for line in follow("kubectl logs -f digits-master-0"):
        if match := re.search(r"resumed after epoch (\d+)", line):
            resumed = int(match[1]) > 0
        if match := re.search(r"test accuracy (\d\.\d+)", line):
            accuracy = float(match[1])
    see(
        "a killed pod ends its whole gang, and generation 2 goes on from the checkpoint",
        resumed,
        "the second generation did not resume from a checkpoint",
    )
    return accuracy


def lose_a_pod() -> None:
    """SIGKILL to the worker's process, from outside of its container."""
    status = read("pod/digits-worker-0")["status"]["containerStatuses"][0]
    found = pids_in(status["containerID"].rpartition("/")[2])
    expect(bool(found), "the worker's process was not found")
    tell(
        "A lost pod. We kill the worker's process without a warning. The master is stopped too, and when nothing of "
        "generation 1 is left, the whole gang starts again as generation 2. (The master's traceback, which says that a "
        "peer has gone, is left out here.)"
    )
    print(f"$ kill -9 {found[0]}", flush=True)
    os.kill(found[0], signal.SIGKILL)


def throw_darts() -> None:
    tell("4. An MPIJob, as the MPI operator has them: a launcher reaches two workers over SSH.")
    show("kubectl create configmap pi --from-file=examples/kubernetes/pi.py")
    show("kubectl apply -f examples/kubernetes/pi.yaml")
    until("the MPIJob to succeed", lambda: condition("mpijob/pi", "Succeeded"), LONG)
    said = show("kubectl logs -l training.kubeflow.org/job-name=pi,training.kubeflow.org/job-role=launcher")
    show("kubectl get mpijob pi")
    workers = re.findall(r"rank \d of 4 on (pi-worker-\d)", said)
    see(
        "an MPIJob: four ranks on two workers over SSH",
        sorted(workers) == ["pi-worker-0"] * 2 + ["pi-worker-1"] * 2 and "pi is about 3.1" in said,
        "not two ranks on each of two workers",
    )


def run_from_here() -> None:
    tell("5. The command line of the laptop. The folder goes along; the words are the same, and so is the output.")
    command = "windlass run --on kubernetes --image windlass-examples:1 --ship examples/digits -N 2 --cpus 0.3"
    said = "".join(follow(f"{command} -- python train.py --epochs 2"))
    show("windlass history --on kubernetes")
    see(
        "windlass run --on kubernetes, with the code shipped",
        "epoch 2/2" in said and "succeeded" in said,
        "the shipped job did not succeed",
    )


def show_events(kind: str, name: str) -> None:
    """What happened to the job, in order."""
    chosen = f"--field-selector=regarding.kind={kind},regarding.name={name}"
    print("$ kubectl events", flush=True)
    events = json.loads(output_of(f"kubectl get events.events.k8s.io -o json {chosen}"))["items"]
    for each in sorted(events, key=lambda event: event["eventTime"]):
        print(f"  {each['eventTime'][11:19]}  {each['type']:<8} {each['reason']:<11} {each['note']}")


def read(what: str) -> dict:
    return json.loads(output_of(f"kubectl get {what} -o json"))


def condition(what: str, kind: str) -> bool:
    """Raises NotAsShownError if the job has failed."""
    true = {each["type"]: each.get("message", "") for each in told_true(read(what))}
    expect("Failed" not in true, f"{what} has failed: {true.get('Failed')}")
    return kind in true


def told_true(thing: dict) -> Iterator[dict]:
    return (each for each in thing.get("status", {}).get("conditions", ()) if each["status"] == "True")


def members(job: str, generation: int = 1, phase: str = "") -> list[dict]:
    """The pods of a generation; only those in a phase, if one is named."""
    labels = f"training.kubeflow.org/job-name={job},windlass.dev/generation={generation}"
    pods = read(f"pods -l {labels}")["items"]
    return [pod for pod in pods if phase in ("", pod["status"]["phase"])]


def moment(pod: dict, kind: str) -> float:
    """When a condition of a pod became true, in seconds."""
    at = next(each["lastTransitionTime"] for each in told_true(pod) if each["type"] == kind)
    return time.mktime(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ"))


def pids_in(mark: str, file: str = "cgroup") -> list[int]:
    """Processes of this machine, and so of its nodes, by what is in their cgroup's path (a container's id) or so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if mark in (folder / file).read_text():
                found.append(int(folder.name))
    return sorted(found)


def left_behind(folder: str, wire: int) -> list[object]:
    """What of the cluster is still there: servers, containers, the wire, files."""
    processes = pids_in(folder, "cmdline") + pids_in(f"{real_nodes.PREFIX}{wire}-")
    return [*processes, *(place for place in (f"/sys/class/net/wl{wire}", folder) if Path(place).exists())]


def see(what: str, held: bool = False, otherwise: str = "") -> None:  # noqa: FBT001, FBT002 - reads as a sentence
    """One of SEEN. Raises NotAsShownError if it did not hold."""
    expect(held, otherwise)
    SEEN[what] = True


def give_up(_number: int, _frame: FrameType | None) -> None:
    raise NotAsShownError(f"it was not done after {PATIENCE} seconds")


if __name__ == "__main__":
    sys.exit(main())
