"""Fields of the kinds of jobs: all that their operators define, read here or not.

Sources: kubeflow/training-operator v1.9 and kubeflow/mpi-operator v0.8, pkg/apis; kubeflow/trainer v2.0 to v2.3,
pkg/apis/trainer/v1alpha1; sigs.k8s.io/jobset v0.11, api/jobset/v1alpha2. A test compares our definitions with
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Fields: TypeAlias = Mapping[str, str]
"""See `types.FieldType`."""


def _of(plain: str, **more: str) -> Fields:
    """Fields that hold nothing to look into, and others."""
    return {**dict.fromkeys(plain.split(), ""), **more}


def _kind(spec: str) -> Fields:
    return _of("apiVersion kind status", metadata="ObjectMeta", spec=spec)


def _job(specs: str, plain: str = "", **more: str) -> Fields:
    """The spec of a kind of the training operator, which calls its replica specs so."""
    return _of(plain, runPolicy="RunPolicy", **{specs: "{ReplicaSpec}"}, **more)


_OPERATORS: Mapping[str, Fields] = {
    "PyTorchJob": _kind("PyTorchJobSpec"),
    "PyTorchJobSpec": _job("pytorchReplicaSpecs", "nprocPerNode", elasticPolicy="PyTorchElasticPolicy"),
    "PyTorchElasticPolicy": _of(
        "minReplicas maxReplicas maxRestarts rdzvBackend rdzvPort rdzvHost rdzvId standalone nProcPerNode",
        rdzvConf="[RdzvConf]",
        metrics="[MetricSpec]",
    ),
    "RdzvConf": _of("key value"),
    "TFJob": _kind("TFJobSpec"),
    "TFJobSpec": _job("tfReplicaSpecs", "successPolicy enableDynamicWorker"),
    "JAXJob": _kind("JAXJobSpec"),
    "JAXJobSpec": _job("jaxReplicaSpecs"),
    "XGBoostJob": _kind("XGBoostJobSpec"),
    "XGBoostJobSpec": _job("xgbReplicaSpecs"),
    "PaddleJob": _kind("PaddleJobSpec"),
    "PaddleJobSpec": _job("paddleReplicaSpecs", elasticPolicy="PaddleElasticPolicy"),
    "PaddleElasticPolicy": _of("minReplicas maxReplicas maxRestarts", metrics="[MetricSpec]"),
    "MPIJob": _kind("MPIJobSpec"),
    "MPIJobSpec": _job(
        "mpiReplicaSpecs",
        "dialect slotsPerWorker cleanPodPolicy mainContainer runLauncherAsWorker sshAuthMountPath "
        "launcherCreationPolicy mpiImplementation",
    ),
    "RunPolicy": _of(
        "cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit suspend managedBy restartMode",
        schedulingPolicy="SchedulingPolicy",
    ),
    "SchedulingPolicy": _of("minAvailable queue priorityClass minResources scheduleTimeoutSeconds"),
    "ReplicaSpec": _of("replicas restartPolicy", template="PodTemplateSpec"),
}

_TRAINER: Mapping[str, Fields] = {
    "TrainJob": _kind("TrainJobSpec"),
    "TrainJobSpec": _of(
        "labels annotations activeDeadlineSeconds suspend managedBy",
        runtimeRef="RuntimeRef",
        initializer="Initializer",
        trainer="Trainer",
        podSpecOverrides="[PodSpecOverride]",
        podTemplateOverrides="[PodTemplateOverride]",
        runtimePatches="[RuntimePatch]",
    ),
    "RuntimeRef": _of("name apiGroup kind"),
    "Initializer": {"dataset": "Initialized", "model": "Initialized"},
    "Initialized": _of("storageUri", env="[EnvVar]", secretRef="LocalObjectReference"),
    "Trainer": _of(
        "image command args numNodes numProcPerNode", env="[EnvVar]", resourcesPerNode="ResourceRequirements"
    ),
    "TargetJob": _of("name"),
    "PodSpecOverride": _of(
        "serviceAccountName nodeSelector",
        targetJobs="[TargetJob]",
        affinity="Affinity",
        tolerations="[Toleration]",
        volumes="[Volume]",
        initContainers="[Container]",
        containers="[Container]",
        schedulingGates="[PodSchedulingGate]",
        imagePullSecrets="[LocalObjectReference]",
    ),
    "PodTemplateOverride": {"targetJobs": "[TargetJob]", "metadata": "ObjectMeta", "spec": "PodSpec"},
    "RuntimePatch": _of("manager time", trainingRuntimeSpec="TrainingRuntimePatch"),
    "TrainingRuntimePatch": {"template": "JobSetTemplate"},
    "TrainingRuntime": _kind("TrainingRuntimeSpec"),
    "TrainingRuntimeSpec": {"mlPolicy": "MLPolicy", "podGroupPolicy": "PodGroupPolicy", "template": "JobSetTemplate"},
    "MLPolicy": _of(
        "numNodes",
        torch="TorchPolicy",
        mpi="MPIPolicy",
        flux="FluxPolicy",
        jax="JAXPolicy",
        xgboost="XGBoostPolicy",
    ),
    "TorchPolicy": _of("numProcPerNode", elasticPolicy="TorchElasticPolicy"),
    "TorchElasticPolicy": _of("maxRestarts minNodes maxNodes", metrics="[MetricSpec]"),
    "MPIPolicy": _of("numProcPerNode mpiImplementation sshAuthMountPath runLauncherAsNode"),
    "FluxPolicy": _of("numProcPerNode"),
    "JAXPolicy": {},
    "XGBoostPolicy": {},
    "PodGroupPolicy": {"coscheduling": "CoschedulingPolicy", "volcano": "VolcanoPolicy"},
    "CoschedulingPolicy": _of("scheduleTimeoutSeconds"),
    "VolcanoPolicy": {"networkTopology": "VolcanoTopology"},
    "VolcanoTopology": _of("mode highestTierAllowed highestTierName"),
    "JobSetTemplate": {"metadata": "ObjectMeta", "spec": "JobSetSpec"},
}

_JOB_SET: Mapping[str, Fields] = {
    "JobSet": _kind("JobSetSpec"),
    "JobSetSpec": _of(
        "suspend managedBy ttlSecondsAfterFinished",
        replicatedJobs="[ReplicatedJob]",
        network="JobSetNetwork",
        successPolicy="JobSetSuccessPolicy",
        failurePolicy="JobSetFailurePolicy",
        startupPolicy="JobSetStartupPolicy",
        coordinator="JobSetCoordinator",
        volumeClaimPolicies="[VolumeClaimPolicy]",
    ),
    "ReplicatedJob": _of("name groupName replicas", template="JobTemplateSpec", dependsOn="[JobSetDependency]"),
    "JobSetDependency": _of("name status"),
    "JobSetNetwork": _of("enableDNSHostnames subdomain publishNotReadyAddresses"),
    "JobSetSuccessPolicy": _of("operator targetReplicatedJobs"),
    "JobSetFailurePolicy": _of("maxRestarts restartStrategy", rules="[JobSetFailureRule]"),
    "JobSetFailureRule": _of("name action onJobFailureReasons onJobFailureMessagePatterns targetReplicatedJobs"),
    "JobSetStartupPolicy": _of("startupPolicyOrder"),
    "JobSetCoordinator": _of("replicatedJob jobIndex podIndex"),
    "VolumeClaimPolicy": {"templates": "[PersistentVolumeClaim]", "retentionPolicy": "VolumeRetentionPolicy"},
    "VolumeRetentionPolicy": _of("whenDeleted"),
}

JOB_TYPES: Mapping[str, Fields] = {**_OPERATORS, **_TRAINER, **_JOB_SET}
