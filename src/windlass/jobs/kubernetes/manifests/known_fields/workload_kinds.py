"""Fields of kinds that run pods beside jobs, and of queues: those that `windlass lint` reads and Windlass does not run.

Sources: k8s.io/api v0.34, apps/v1; ray-project/kuberay v1.4 and v1.5, config/crd; sigs.k8s.io/lws v0.6, config/crd;
sigs.k8s.io/kueue v0.13 and v0.17, config/components/crd; volcano.sh/apis v1.14, pkg/apis/batch/v1alpha1;
kubeflow/kubeflow v1.10, components/notebook-controller/config/crd.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.jobs.kubernetes.manifests.known_fields.job_kinds import Fields, fields_of, kind_of

_APPS: Mapping[str, Fields] = {
    "Deployment": kind_of("DeploymentSpec"),
    "DeploymentSpec": fields_of(
        "replicas strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds",
        selector="LabelSelector",
        template="PodTemplateSpec",
    ),
    "StatefulSet": kind_of("StatefulSetSpec"),
    "StatefulSetSpec": fields_of(
        "replicas serviceName podManagementPolicy updateStrategy revisionHistoryLimit minReadySeconds "
        "persistentVolumeClaimRetentionPolicy ordinals",
        selector="LabelSelector",
        template="PodTemplateSpec",
        volumeClaimTemplates="[PersistentVolumeClaim]",
    ),
    "DaemonSet": kind_of("DaemonSetSpec"),
    "DaemonSetSpec": fields_of(
        "updateStrategy minReadySeconds revisionHistoryLimit", selector="LabelSelector", template="PodTemplateSpec"
    ),
}

_RAY: Mapping[str, Fields] = {
    "RayCluster": kind_of("RayClusterSpec"),
    "RayClusterSpec": fields_of(
        "autoscalerOptions enableInTreeAutoscaling gcsFaultToleranceOptions headServiceAnnotations managedBy "
        "rayVersion suspend authOptions upgradeStrategy",
        headGroupSpec="RayHeadGroup",
        workerGroupSpecs="[RayWorkerGroup]",
    ),
    "RayHeadGroup": fields_of(
        "enableIngress headService labels rayStartParams resources serviceType", template="PodTemplateSpec"
    ),
    "RayWorkerGroup": fields_of(
        "groupName idleTimeoutSeconds labels maxReplicas minReplicas numOfHosts rayStartParams replicas resources "
        "scaleStrategy suspend",
        template="PodTemplateSpec",
    ),
    "RayJob": kind_of("RayJobSpec"),
    "RayJobSpec": fields_of(
        "activeDeadlineSeconds backoffLimit clusterSelector deletionPolicy deletionStrategy entrypoint "
        "entrypointNumCpus entrypointNumGpus entrypointResources jobId managedBy metadata runtimeEnvYAML "
        "shutdownAfterJobFinishes submissionMode submitterConfig suspend ttlSecondsAfterFinished",
        rayClusterSpec="RayClusterSpec",
        submitterPodTemplate="PodTemplateSpec",
    ),
    "RayService": kind_of("RayServiceSpec"),
    "RayServiceSpec": fields_of(
        "deploymentUnhealthySecondThreshold excludeHeadPodFromServeSvc rayClusterDeletionDelaySeconds serveConfigV2 "
        "serveService serviceUnhealthySecondThreshold upgradeStrategy",
        rayClusterConfig="RayClusterSpec",
    ),
}

_OTHERS: Mapping[str, Fields] = {
    "Notebook": kind_of("NotebookSpec"),
    "NotebookSpec": {"template": "NotebookTemplate"},
    "NotebookTemplate": fields_of("metadata", spec="PodSpec"),
    "LeaderWorkerSet": kind_of("LeaderWorkerSetSpec"),
    "LeaderWorkerSetSpec": fields_of(
        "networkConfig replicas rolloutStrategy startupPolicy", leaderWorkerTemplate="LeaderWorkerTemplate"
    ),
    "LeaderWorkerTemplate": fields_of(
        "restartPolicy size subGroupPolicy resizePolicy persistentVolumeClaimRetentionPolicy",
        leaderTemplate="PodTemplateSpec",
        workerTemplate="PodTemplateSpec",
        volumeClaimTemplates="[PersistentVolumeClaim]",
    ),
    "VolcanoJob": kind_of("VolcanoJobSpec"),
    "VolcanoJobSpec": fields_of(
        "schedulerName minAvailable volumes policies plugins runningEstimate queue maxRetry ttlSecondsAfterFinished "
        "priorityClassName minSuccess networkTopology",
        tasks="[VolcanoTask]",
    ),
    "VolcanoTask": fields_of(
        "name replicas minAvailable policies topologyPolicy maxRetry dependsOn partitionPolicy",
        template="PodTemplateSpec",
    ),
}

_KUEUE: Mapping[str, Fields] = {
    "ClusterQueue": kind_of("ClusterQueueSpec"),
    "ClusterQueueSpec": fields_of(
        "admissionChecks admissionChecksStrategy admissionScope cohort cohortName fairSharing flavorFungibility "
        "preemption queueingStrategy stopPolicy",
        namespaceSelector="LabelSelector",
        resourceGroups="[KueueResourceGroup]",
    ),
    "KueueResourceGroup": fields_of("coveredResources", flavors="[KueueFlavorQuotas]"),
    "KueueFlavorQuotas": fields_of("name", resources="[KueueQuota]"),
    "KueueQuota": fields_of("name nominalQuota borrowingLimit lendingLimit"),
    "LocalQueue": kind_of("LocalQueueSpec"),
    "LocalQueueSpec": fields_of("clusterQueue fairSharing stopPolicy"),
    "ResourceFlavor": kind_of("ResourceFlavorSpec"),
    "ResourceFlavorSpec": fields_of("nodeLabels nodeTaints topologyName", tolerations="[Toleration]"),
}

WORKLOAD_TYPES: Mapping[str, Fields] = {**_APPS, **_RAY, **_OTHERS, **_KUEUE}
WORKLOAD_KINDS: Mapping[tuple[str, str], str] = {
    **{("apps/v1", kind): kind for kind in ("Deployment", "StatefulSet", "DaemonSet")},
    **{("ray.io/v1", kind): kind for kind in ("RayCluster", "RayJob", "RayService")},
    **{(f"kubeflow.org/{version}", "Notebook"): "Notebook" for version in ("v1", "v1beta1")},
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): "LeaderWorkerSet",
    ("batch.volcano.sh/v1alpha1", "Job"): "VolcanoJob",
    **{
        (f"kueue.x-k8s.io/{version}", kind): kind
        for version in ("v1beta1", "v1beta2")
        for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor")
    },
}
"""The type of each kind, by API version and name."""
