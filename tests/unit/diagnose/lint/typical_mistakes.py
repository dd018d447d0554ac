"""Mistakes that people make in manifests, by kind: twelve of each, and the rule that finds each.

Sources: issues 472, 435 and 443 of kubeflow/mpi-operator; 563, 928, 1563, 1745 and 3220 of kubeflow/trainer and
kubeflow/kubeflow; 1943, 1984 and 2640 of ray-project/kuberay; 171 and 394 of kubernetes-sigs/jobset; 961 and 1726 of
kubernetes-sigs/kueue; 8707, 10098 and 18650 of Lightning-AI/pytorch-lightning.
"""

from planted_faults import PODS, REPLICAS, add, drop, misspell, put

GPUS = {"limits": {"nvidia.com/gpu": 4}}


def of_any_pod(kind):
    """Mistakes in the pod template of a kind."""
    pod = PODS[kind]
    first = (*pod, "containers", 0)
    return {
        "command in one word": ("command-in-one-word", put(*first, "command", value=["python train.py"])),
        "number as the value of a variable": ("env-value-no-text", add(*first, "env", item={"name": "A", "value": 1})),
        "gpus": ("gpu-resource-misspelt", put(*first, "resources", value={"limits": {"nvidia.com/gpus": 1}})),
        "GPU requested without a limit": (
            "gpu-request-without-limit",
            put(*first, "resources", value={"requests": {"nvidia.com/gpu": 1}}),
        ),
        "half a GPU": ("gpu-fraction", put(*first, "resources", value={"limits": {"nvidia.com/gpu": 0.5}})),
        "resources in the spec of the pod": ("unknown-field", put(*pod, "resource", value={"limits": {"cpu": 1}})),
    }


def of_replica_job(kind):
    """Mistakes in jobs of Kubeflow's operators."""
    specs = {**REPLICAS, "MPIJob": ("mpiReplicaSpecs", "mpi")}[kind][0]
    worker = ("spec", specs, "Worker")
    return {
        "name with a capital": ("name-malformed", put("metadata", "name", value="Train")),
        "replicas as a text": ("invalid-job", put(*worker, "replicas", value="2")),
        "cleanPodPolicy in small letters": ("invalid-job", put("spec", "runPolicy", "cleanPodPolicy", value="running")),
        "restartPolicy in the template": (
            "restart-policy-overwritten",
            lambda job: (
                put(*worker, "restartPolicy", value="Never")(job),
                put(*worker, "template", "spec", "restartPolicy", value="OnFailure")(job),
            ),
        ),
    }


MISTAKES = {
    "PyTorchJob": {
        **of_any_pod("PyTorchJob"),
        **of_replica_job("PyTorchJob"),
        "container with a name of its own": (
            "invalid-job",
            put("spec", "pytorchReplicaSpecs", "Worker", "template", "spec", "containers", 0, "name", value="train"),
        ),
        "two masters": ("invalid-job", put("spec", "pytorchReplicaSpecs", "Master", "replicas", value=2)),
    },
    "MPIJob": {
        **of_any_pod("MPIJob"),
        **of_replica_job("MPIJob"),
        "program in the worker": (
            "mpi-worker-without-sshd",
            put(
                "spec",
                "mpiReplicaSpecs",
                "Worker",
                "template",
                "spec",
                "containers",
                0,
                "command",
                value=["sleep", "9"],
            ),
        ),
        "no launcher": ("invalid-job", drop("spec", "mpiReplicaSpecs", "Launcher")),
    },
    "TrainJob": {
        "nodes as a text": ("invalid-job", put("spec", "trainer", "numNodes", value="two")),
        "resources without PerNode": ("unknown-field", put("spec", "trainer", "resources", value=GPUS)),
        "replicas in place of nodes": ("unknown-field", put("spec", "trainer", "replicas", value=2)),
        "no runtime": ("invalid-job", drop("spec", "runtimeRef", "name")),
        "runtime as a text": ("invalid-job", put("spec", "runtimeRef", value="torch-distributed")),
        "command as a text": ("command-no-list", put("spec", "trainer", "command", value="python a.py")),
        "command in one word": ("command-in-one-word", put("spec", "trainer", "command", value=["python a.py"])),
        "number as the value of a variable": (
            "env-value-no-text",
            add("spec", "trainer", "env", item={"name": "A", "value": 1}),
        ),
        "address set by hand": (
            "rank-variable-set",
            add("spec", "trainer", "env", item={"name": "MASTER_ADDR", "value": "a"}),
        ),
        "gpus": (
            "gpu-resource-misspelt",
            put("spec", "trainer", "resourcesPerNode", value={"limits": {"nvidia.com/gpus": 1}}),
        ),
        "kind of version 1": ("kind-misspelt", put("kind", value="TrainJobs")),
        "nodes in torchrun": (
            "torchrun-nodes-differ",
            put("spec", "trainer", "command", value=["torchrun", "--nnodes=4", "train.py"]),
        ),
    },
    "JobSet": {
        **of_any_pod("JobSet"),
        "unknown job in the policy": (
            "jobset-reference-unknown",
            put("spec", "successPolicy", value={"targetReplicatedJobs": ["worker"]}),
        ),
        "restarts in the spec": ("unknown-field", put("spec", "maxRestarts", value=3)),
        "name with an underscore": ("name-malformed", put("metadata", "name", value="my_job")),
        "replicas of pods": ("unknown-field", put("spec", "replicatedJobs", 0, "parallelism", value=3)),
        "failure policy and restarts": (
            "pod-failure-policy-restarts",
            lambda job: (
                put(*PODS["JobSet"], "restartPolicy", value="OnFailure")(job),
                put("spec", "replicatedJobs", 0, "template", "spec", "podFailurePolicy", value={"rules": []})(job),
            ),
        ),
        "old version": ("removed-api-version", put("apiVersion", value="jobset.x-k8s.io/v1alpha1")),
    },
    "RayCluster": {
        **{what: each for what, each in of_any_pod("RayCluster").items() if what != "command in one word"},
        "image of another version": (
            "ray-version-differs",
            put(*PODS["RayCluster"], "containers", 0, "image", value="rayproject/ray:2.9.0"),
        ),
        "number as a parameter": (
            "ray-parameter-no-text",
            put("spec", "headGroupSpec", "rayStartParams", "num-cpus", value=0),
        ),
        "minimum above the maximum": (
            "ray-replicas-out-of-range",
            put("spec", "workerGroupSpecs", 0, "minReplicas", value=9),
        ),
        "resources without quotes": (
            "ray-resources-unquoted",
            put("spec", "workerGroupSpecs", 0, "rayStartParams", "resources", value='{"NPU": 1}'),
        ),
        "autoscaler without CPUs": ("ray-cpus-unknown", put("spec", "enableInTreeAutoscaling", value=True)),
        "old version": ("removed-api-version", put("apiVersion", value="ray.io/v1alpha1")),
        "group in the singular": ("unknown-field", misspell("spec", "workerGroupSpecs", name="workerGroupSpec")),
    },
    "Notebook": {
        **of_any_pod("Notebook"),
        "container with a name of its own": (
            "notebook-container-name",
            put(*PODS["Notebook"], "containers", 0, "name", value="jupyter"),
        ),
        "capital in the name": ("name-malformed", put("metadata", "name", value="Explore")),
        "pod in the spec": ("unknown-field", put("spec", "containers", value=[])),
        "mount without a volume": (
            "volume-mount-unknown",
            put(*PODS["Notebook"], "containers", 0, "volumeMounts", value=[{"name": "a", "mountPath": "/a"}]),
        ),
        "no claim": ("notebook-without-claim", lambda _: None),
        "policy in small letters": (
            "image-pull-policy-unknown",
            put(*PODS["Notebook"], "containers", 0, "imagePullPolicy", value="always"),
        ),
    },
    "ClusterQueue": {
        "no namespaces": ("kueue-namespaces-missing", drop("spec", "namespaceSelector")),
        "resources in another order": (
            "kueue-resources-differ",
            put("spec", "resourceGroups", 0, "coveredResources", value=["memory", "cpu"]),
        ),
        "resource in two groups": (
            "kueue-resource-in-two-groups",
            lambda queue: queue["spec"]["resourceGroups"].append(queue["spec"]["resourceGroups"][0]),
        ),
        "limit without a cohort": (
            "kueue-limit-without-cohort",
            put("spec", "resourceGroups", 0, "flavors", 0, "resources", 0, "borrowingLimit", value=3),
        ),
        "quota under a wrong name": (
            "unknown-field",
            misspell("spec", "resourceGroups", 0, "flavors", 0, "resources", 0, "nominalQuota", name="nominalquota"),
        ),
        "one group": ("unknown-field", misspell("spec", "resourceGroups", name="resourceGroup")),
        "namespaces in the plural": ("unknown-field", misspell("spec", "namespaceSelector", name="namespaceSelectors")),
        "kind in the plural": ("kind-misspelt", put("kind", value="ClusterQueues")),
        "kind in small letters": ("kind-misspelt", put("kind", value="clusterqueue")),
        "no version": ("api-version-missing", drop("apiVersion")),
        "number as a label": ("metadata-value-no-text", put("metadata", "labels", "team", value=3)),
        "name with a capital": ("name-malformed", put("metadata", "name", value="GPUs")),
    },
}
"""Kind → what is wrong → the rule that finds it, and the mistake."""
HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n"
MEET = "--nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint $HEAD:29500 train.py\n"
SCRIPTS = {
    "torchrun without srun": ("sbatch-torchrun-without-srun", f"{HEAD}torchrun {MEET}"),
    "old launcher without srun": ("sbatch-torchrun-without-srun", f"{HEAD}python -m torch.distributed.launch {MEET}"),
    "old launcher": ("sbatch-launch-obsolete", f"{HEAD}srun python -m torch.distributed.launch {MEET}"),
    "tasks of Lightning without srun": (
        "sbatch-python-without-srun",
        f"{HEAD}#SBATCH --ntasks-per-node=4\npython train.py\n",
    ),
    "torchrun once for each GPU": (
        "sbatch-torchrun-per-gpu",
        f"{HEAD}#SBATCH --ntasks-per-node=4\nsrun torchrun {MEET}",
    ),
    "half of the GPUs": ("sbatch-processes-differ", HEAD + "srun torchrun " + MEET.replace("per-node 4", "per-node 2")),
    "every node at itself": ("sbatch-address-of-itself", HEAD + "srun torchrun " + MEET.replace("$HEAD", "localhost")),
    "an hour that is a minute": ("sbatch-time-in-minutes", f"{HEAD}#SBATCH --time=1:00\nsrun torchrun {MEET}"),
    "short option with =": ("sbatch-option-equals", f"{HEAD}#SBATCH -c=8\nsrun torchrun {MEET}"),
    "folder made by the script": (
        "sbatch-output-folder-late",
        f"{HEAD}#SBATCH -o logs/a\nmkdir -p logs\nsrun hostname\n",
    ),
    "variable in an option": ("sbatch-variable-in-option", f"{HEAD}#SBATCH -o $HOME/a\nsrun hostname\n"),
    "option behind a command": ("sbatch-option-after-command", f"{HEAD}srun hostname\n#SBATCH --mem=1G\n"),
}
"""Batch scripts by what is wrong in them, each with the rule that finds it."""
