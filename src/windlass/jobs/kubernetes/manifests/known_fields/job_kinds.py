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


def fields_of(plain: str, **more: str) -> Fields:
    """Fields that hold nothing to look into, and others."""
    return {**dict.fromkeys(plain.split(), ""), **more}


def kind_of(spec: str) -> Fields:
    """The fields of an object whose spec has a type."""
    return fields_of("apiVersion kind status", metadata="ObjectMeta", spec=spec)


def _job(specs: str, plain: str = "", **more: str) -> Fields:
    """The spec of a kind of the training operator, which calls its replica specs so."""
    return fields_of(plain, runPolicy="RunPolicy", **{specs: "{ReplicaSpec}"}, **more)


_OPERATORS: Mapping[str, Fields] = {
    "PyTorchJob": kind_of("PyTorchJobSpec"),
    "PyTorchJobSpec": _job("pytorchReplicaSpecs", "nprocPerNode", elasticPolicy="PyTorchElasticPolicy"),
    "PyTorchElasticPolicy": fields_of(
        "minReplicas maxReplicas maxRestarts rdzvBackend rdzvPort rdzvHost rdzvId standalone nProcPerNode",
        rdzvConf="[RdzvConf]",
        metrics="[MetricSpec]",
    ),
    "RdzvConf": fields_of("key value"),
    "TFJob": kind_of("TFJobSpec"),
    "TFJobSpec": _job("tfReplicaSpecs", "successPolicy enableDynamicWorker"),
    "JAXJob": kind_of("JAXJobSpec"),
    "JAXJobSpec": _job("jaxReplicaSpecs"),
    "XGBoostJob": kind_of("XGBoostJobSpec"),
    "XGBoostJobSpec": _job("xgbReplicaSpecs"),
    "PaddleJob": kind_of("PaddleJobSpec"),
    "PaddleJobSpec": _job("paddleReplicaSpecs", elasticPolicy="PaddleElasticPolicy"),
    "PaddleElasticPolicy": fields_of("minReplicas maxReplicas maxRestarts", metrics="[MetricSpec]"),
    "MPIJob": kind_of("MPIJobSpec"),
    "MPIJobSpec": _job(
        "mpiReplicaSpecs",
        "dialect slotsPerWorker cleanPodPolicy mainContainer runLauncherAsWorker sshAuthMountPath "
        "launcherCreationPolicy mpiImplementation",
    ),
    "Notebook": kind_of("NotebookSpec"),
    "NotebookSpec": {"template": "NotebookTemplate"},
    "NotebookTemplate": {"spec": "PodSpec"},
    "RunPolicy": fields_of(
        "cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit suspend managedBy restartMode",
        schedulingPolicy="SchedulingPolicy",
    ),
    "SchedulingPolicy": fields_of("minAvailable queue priorityClass minResources scheduleTimeoutSeconds"),
    "ReplicaSpec": fields_of("replicas restartPolicy", template="PodTemplateSpec"),
}

_TRAINER: Mapping[str, Fields] = {
    "TrainJob": kind_of("TrainJobSpec"),
    "TrainJobSpec": fields_of(
        "labels annotations activeDeadlineSeconds suspend managedBy",
        runtimeRef="RuntimeRef",
        initializer="Initializer",
        trainer="Trainer",
        podSpecOverrides="[PodSpecOverride]",
        podTemplateOverrides="[PodTemplateOverride]",
        runtimePatches="[RuntimePatch]",
    ),
    "RuntimeRef": fields_of("name apiGroup kind"),
    "Initializer": {"dataset": "Initialized", "model": "Initialized"},
    "Initialized": fields_of("storageUri", env="[EnvVar]", secretRef="LocalObjectReference"),
    "Trainer": fields_of(
        "image command args numNodes numProcPerNode", env="[EnvVar]", resourcesPerNode="ResourceRequirements"
    ),
    "TargetJob": fields_of("name"),
    "PodSpecOverride": fields_of(
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
    "RuntimePatch": fields_of("manager time", trainingRuntimeSpec="TrainingRuntimePatch"),
    "TrainingRuntimePatch": {"template": "JobSetTemplate"},
    "TrainingRuntime": kind_of("TrainingRuntimeSpec"),
    "TrainingRuntimeSpec": {"mlPolicy": "MLPolicy", "podGroupPolicy": "PodGroupPolicy", "template": "JobSetTemplate"},
    "MLPolicy": fields_of(
        "numNodes",
        torch="TorchPolicy",
        mpi="MPIPolicy",
        flux="FluxPolicy",
        jax="JAXPolicy",
        xgboost="XGBoostPolicy",
    ),
    "TorchPolicy": fields_of("numProcPerNode", elasticPolicy="TorchElasticPolicy"),
    "TorchElasticPolicy": fields_of("maxRestarts minNodes maxNodes", metrics="[MetricSpec]"),
    "MPIPolicy": fields_of("numProcPerNode mpiImplementation sshAuthMountPath runLauncherAsNode"),
    "FluxPolicy": fields_of("numProcPerNode"),
    "JAXPolicy": {},
    "XGBoostPolicy": {},
    "PodGroupPolicy": {"coscheduling": "CoschedulingPolicy", "volcano": "VolcanoPolicy"},
    "CoschedulingPolicy": fields_of("scheduleTimeoutSeconds"),
    "VolcanoPolicy": {"networkTopology": "VolcanoTopology"},
    "VolcanoTopology": fields_of("mode highestTierAllowed highestTierName"),
    "JobSetTemplate": {"metadata": "ObjectMeta", "spec": "JobSetSpec"},
}

_JOB_SET: Mapping[str, Fields] = {
    "JobSet": kind_of("JobSetSpec"),
    "JobSetSpec": fields_of(
        "suspend managedBy ttlSecondsAfterFinished",
        replicatedJobs="[ReplicatedJob]",
        network="JobSetNetwork",
        successPolicy="JobSetSuccessPolicy",
        failurePolicy="JobSetFailurePolicy",
        startupPolicy="JobSetStartupPolicy",
        coordinator="JobSetCoordinator",
        volumeClaimPolicies="[VolumeClaimPolicy]",
    ),
    "ReplicatedJob": fields_of("name groupName replicas", template="JobTemplateSpec", dependsOn="[JobSetDependency]"),
    "JobSetDependency": fields_of("name status"),
    "JobSetNetwork": fields_of("enableDNSHostnames subdomain publishNotReadyAddresses"),
    "JobSetSuccessPolicy": fields_of("operator targetReplicatedJobs"),
    "JobSetFailurePolicy": fields_of("maxRestarts restartStrategy", rules="[JobSetFailureRule]"),
    "JobSetFailureRule": fields_of("name action onJobFailureReasons onJobFailureMessagePatterns targetReplicatedJobs"),
    "JobSetStartupPolicy": fields_of("startupPolicyOrder"),
    "JobSetCoordinator": fields_of("replicatedJob jobIndex podIndex"),
    "VolumeClaimPolicy": {"templates": "[PersistentVolumeClaim]", "retentionPolicy": "VolumeRetentionPolicy"},
    "VolumeRetentionPolicy": fields_of("whenDeleted"),
}

JOB_TYPES: Mapping[str, Fields] = {**_OPERATORS, **_TRAINER, **_JOB_SET}
