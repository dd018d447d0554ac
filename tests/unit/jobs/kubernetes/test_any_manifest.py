"""Any manifest becomes pods, or one fault with a place and a fix. No exception is raised."""

import copy

import yaml
from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.jobs.kubernetes.kinds.registry import KINDS, dependent_objects, members, read
from windlass.jobs.kubernetes.manifest_reader import Fault, ManifestField
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests

SMALL = yaml.safe_load("""
metadata: {name: any, labels: {a: b}, annotations: {windlass.dev/restart-mode: gang}}
spec:
  runPolicy: {backoffLimit: 3, suspend: false, schedulingPolicy: {queue: q, minAvailable: 2}}
  elasticPolicy: {minReplicas: 1, maxReplicas: 2, rdzvConf: [{key: a, value: b}]}
status:
  conditions: [{type: Running, status: "True", reason: PyTorchJobRunning, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  replicaStatuses: {Worker: {active: 1}}
""")
TEMPLATE = yaml.safe_load("""
replicas: 1
restartPolicy: OnFailure
template:
  metadata: {labels: {a: b}}
  spec:
    nodeSelector: {a: b}
    tolerations: [{key: a, operator: Exists}]
    affinity:
      nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: a, operator: In, values: [b]}]}]}}
      podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,
        labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}]}
    volumes: [{name: v}]
    initContainers: [{name: i, image: i, resources: {requests: {cpu: 1}}}]
    containers:
    - name: main
      image: i
      command: [run]
      args: [a]
      env: [{name: A, value: b}]
      ports: [{name: p, containerPort: 80}]
      volumeMounts: [{name: v, mountPath: /v}]
      resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}
""")
ROLES = {
    "PyTorchJob": ("pytorchReplicaSpecs", "Master", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "Chief", "tensorflow"),
    "JAXJob": ("jaxReplicaSpecs", "Worker", "jax"),
    "XGBoostJob": ("xgbReplicaSpecs", "Master", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "Master", "paddle"),
    "MPIJob": ("mpiReplicaSpecs", "Launcher", "mpi"),
}

TRAIN = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: any, labels: {a: b}}
spec:
  runtimeRef: {name: deepspeed-distributed, kind: ClusterTrainingRuntime}
  trainer: {image: i, command: [run], args: [a], numNodes: 3, numProcPerNode: 2, env: [{name: A, value: b}],
            resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}
  runtimePatches:
  - manager: m
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {
      volumes: [{name: v}], tolerations: [{key: a, operator: Exists}]}}}}}]}}}
  podTemplateOverrides: [{targetJobs: [{name: launcher}], metadata: {labels: {a: b}}, spec: {nodeSelector: {a: b}}}]
  activeDeadlineSeconds: 60
  suspend: false
""")
OWN = yaml.safe_load("""
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: any, labels: {a: b, windlass.dev/array: x-1, windlass.dev/array-index: "3"}, annotations: {a: b}}
spec:
  command: [torchrun, train.py]
  image: i
  pod: {metadata: {labels: {a: b}}, spec: {volumes: [{name: v}], tolerations: [{key: a, operator: Exists}],
        containers: [{name: main, env: [{name: A, value: b}], resources: {limits: {cpu: 1}}}, {name: log, image: l}]}}
  roles:
    ps: {replicas: 1, pod: {spec: {containers: [{name: main, image: j}]}}}
    worker: {elastic: {min: 1, max: 2}, gpus: 2, mem: 1Gi, selector: {a: b}, affinity: [a=b], env: {A: b}}
  restart: {user: 3, backoff: 10s}
  topology: {level: rack}
  queue: q
  time: 1h
  after: [other]
  avoid: [n1]
  labels: {a: b}
""")


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**50) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def whole(kind):
    """A manifest of a kind with something in every field that is read."""
    if kind.name in ("TrainingJob", "TrainJob"):
        return copy.deepcopy(OWN if kind.name == "TrainingJob" else TRAIN)
    if kind.name == "Notebook":
        return copy.deepcopy({"apiVersion": kind.api_version, "kind": kind.name, **SMALL, "spec": TEMPLATE})
    field, first, container = ROLES[kind.name]
    manifest = copy.deepcopy({"apiVersion": kind.api_version, "kind": kind.name, **SMALL})
    template = copy.deepcopy(TEMPLATE)
    template["template"]["spec"]["containers"][0]["name"] = container
    workers = {**copy.deepcopy(template), "replicas": 2}
    manifest["spec"][field] = {first: template, "Worker": workers}
    return manifest


def paths(value, path=()):
    """Paths at which a value can be replaced."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in entries:
        yield from paths(inner, (*path, name))


def becomes_a_job_or_a_fault(manifest):
    found = read(manifest)
    if isinstance(found, Fault):
        assert found.message
        assert str(found).count("\n") == 0
    elif found.pod_count < 100:
        made = members(found, 1)
        dependent_objects(found)
        assert len({member.name for member in made}) == len(made)
        roles = {role.name: role for role in found.job.roles}
        for member in made:  # what is scheduled is what is bound
            assert pod_requests(ManifestField(member.pod["spec"])) == roles[member.role].resources


def test_every_kind_has_a_whole_manifest_here():
    for kind in KINDS:
        assert not isinstance(read(whole(kind)), Fault), read(whole(kind))


@depth(60)
@given(plain)
def test_any_value_becomes_a_job_or_a_fault(value):
    becomes_a_job_or_a_fault(value)


@depth(200)
@given(st.data())
def test_any_value_of_any_field_becomes_a_job_or_a_fault(data):
    manifest = whole(data.draw(st.sampled_from(KINDS)))
    *inside, last = data.draw(st.sampled_from([path for path in paths(manifest) if path]))
    around = manifest
    for name in inside:
        around = around[name]
    around[last] = data.draw(plain)
    becomes_a_job_or_a_fault(manifest)


def test_a_fault_in_a_field_whose_name_has_a_line_end_is_one_line():
    manifest = whole(next(kind for kind in KINDS if kind.name == "TrainingJob"))
    manifest["spec"]["roles"] = {"\n": {"nodes": 1}}
    assert str(read(manifest)).count("\n") == 0
