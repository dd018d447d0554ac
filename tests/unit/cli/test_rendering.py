"""`render --for kubernetes`: which objects a job becomes."""

import json

import pytest
import yaml

MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: sum}
spec:
  jaxReplicaSpecs:
    Worker:
      template:
        spec:
          topologySpreadConstraints: [{maxSkew: 1}]
          containers: [{name: jax, image: "sum:1"}]
"""


@pytest.fixture
def manifest(tmp_path):
    file = tmp_path / "sum.yaml"
    file.write_text(MANIFEST)
    return str(file)


def test_a_manifests_objects_are_printed_for_kubectl(windlass, manifest):
    ran = windlass("render", "--for", "kubernetes", manifest)
    assert [each["kind"] for each in yaml.safe_load_all(ran.out)] == ["Service", "Pod"]
    assert "sum: Worker: topologySpreadConstraints is not heeded by the scheduler" in ran.err
    listed = json.loads(windlass("render", "--for", "kubernetes", "-f", manifest, "-o", "json").out)
    assert (listed["kind"], len(listed["items"])) == ("List", 2)


ANTI = """\
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: {}
                labelSelector: {{matchLabels: {{training.kubeflow.org/job-name: sum}}}}
"""


@pytest.mark.parametrize(("domain", "is_heeded"), [("kubernetes.io/hostname", True), ("zone", False)])
def test_anti_affinity_that_the_scheduler_heeds_is_not_warned_of(windlass, tmp_path, domain, is_heeded):
    file = tmp_path / "sum.yaml"
    file.write_text(MANIFEST.replace("          topologySpreadConstraints: [{maxSkew: 1}]\n", ANTI.format(domain)))
    said = "sum: Worker: podAntiAffinity is not heeded by the scheduler"
    assert (said in windlass("render", "--for", "kubernetes", str(file)).err) is not is_heeded


def test_a_selector_that_no_pod_can_have_is_an_error_at_its_place(windlass, tmp_path):
    file = tmp_path / "sum.yaml"
    wrong = ANTI.format("kubernetes.io/hostname").replace("job-name: sum", "job-name: 1")
    file.write_text(MANIFEST.replace("          topologySpreadConstraints: [{maxSkew: 1}]\n", wrong))
    ran = windlass("render", "--for", "kubernetes", str(file))
    assert ran.code == 2
    assert "sum.yaml:13:47" in ran.err
    assert "matchLabels.training.kubeflow.org/job-name: expects a text, not 1; put it in quotes" in ran.err


def test_a_jobs_pods_are_printed_from_a_command(windlass):
    ran = windlass("render", "--for", "kubernetes", "--image", "a:1", "-N", "2", "--", "python", "train.py")
    assert [each["kind"] for each in yaml.safe_load_all(ran.out)] == ["Service", "Pod", "Pod"]


def test_a_job_is_printed_as_one_resource(windlass):
    ran = windlass("render", "--for", "trainingjob", "--image", "a:1", "-N", "2", "--", "python", "train.py")
    resource = yaml.safe_load(ran.out)
    assert (resource["kind"], resource["metadata"]) == ("TrainingJob", {"name": "train"})
    assert (resource["spec"]["image"], resource["spec"]["nodes"]) == ("a:1", 2)
    ran = windlass("render", "--for", "trainingjob", "-N", "2", "--", "python", "train.py")
    assert ran.code == 2
    assert "command line: image: is missing; write the container image that holds the program" in ran.err


def test_options_that_would_do_nothing_are_refused(windlass, manifest):
    ran = windlass("render", "--for", "kubernetes", "-N", "2", manifest)
    assert ran.code == 2
    assert "holds manifests, which say everything themselves" in ran.err
