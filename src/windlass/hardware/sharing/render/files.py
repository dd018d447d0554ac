"""All files of a plan, by name."""

from __future__ import annotations

from windlass.hardware.sharing.plan import SharingPlan
from windlass.hardware.sharing.render import operator_files
from windlass.hardware.sharing.render.documents import as_documents
from windlass.hardware.sharing.render.dra_files import dra_objects
from windlass.hardware.sharing.render.node_labels import label_script
from windlass.hardware.sharing.render.queue_files import cluster_file, queue_objects


def rendered_files(plan: SharingPlan) -> dict[str, str]:
    """Returns name and text of each file; those about MIG only where the plan has instances."""
    files = {
        "device-plugin-config.yaml": as_documents(
            "Configurations of the device plugin. Apply before the ClusterPolicy: kubectl apply -f FILE",
            [operator_files.plugin_config_map(plan)],
        ),
        "cluster-policy.yaml": as_documents(
            "kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge --patch-file cluster-policy.yaml\n"
            "The ConfigMaps replace those in use: copy configurations that nodes of other pools name into them.",
            [operator_files.cluster_policy(plan)],
        ),
        "gpu-operator-values.yaml": as_documents(
            "The same for a new installation: helm install gpu-operator nvidia/gpu-operator -n gpu-operator -f FILE",
            [operator_files.operator_spec(plan)],
        ),
        "label-nodes.sh": label_script(plan),
        "queues.yaml": as_documents(
            "Queues of the workloads: kubectl apply -f FILE\n"
            "The queue default gets the GPUs that are left: raise its quota if other queues or pools need more.",
            queue_objects(plan),
        ),
    }
    if operator_files.has_mig(plan):
        files["mig-parted-config.yaml"] = as_documents(
            "Layouts of the MIG manager. Apply before the ClusterPolicy: kubectl apply -f FILE",
            [operator_files.mig_config_map(plan)],
        )
    if operator_files.used_groups(plan):
        files["dra.yaml"] = as_documents(
            "For clusters with NVIDIA's DRA driver in place of the device plugin. Sharing needs its feature gates\n"
            "TimeSlicingSettings or MPSSupport. Pods that share a GPU name the same ResourceClaim.",
            dra_objects(plan),
        )
        files["cluster.yaml"] = as_documents(
            "The same nodes and queues for the local backend: windlass up --cluster FILE", [cluster_file(plan)]
        )
    return files
