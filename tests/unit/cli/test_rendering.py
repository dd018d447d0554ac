"""`render --for kubernetes`: the objects of a job."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from windlass.cli.kubernetes.submission import SubmitRequest, build_objects
from windlass.jobs.description.options import RunOptions
from windlass.jobs.errors import InputError

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


def test_the_objects_of_a_manifest_are_printed_for_kubectl(windlass, manifest):
    ran = windlass("render", "--for", "kubernetes", manifest)
    assert [each["kind"] for each in yaml.safe_load_all(ran.out)] == ["Service", "Pod"]
    assert "sum: Worker: topologySpreadConstraints is ignored by the scheduler" in ran.err
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
def test_supported_anti_affinity_causes_no_warning(windlass, tmp_path, domain, is_heeded):
    file = tmp_path / "sum.yaml"
    file.write_text(MANIFEST.replace("          topologySpreadConstraints: [{maxSkew: 1}]\n", ANTI.format(domain)))
    message = "sum: Worker: podAntiAffinity is ignored by the scheduler"
    assert (message in windlass("render", "--for", "kubernetes", str(file)).err) is not is_heeded


def test_an_impossible_selector_is_an_error_at_its_place(windlass, tmp_path):
    file = tmp_path / "sum.yaml"
    wrong = ANTI.format("kubernetes.io/hostname").replace("job-name: sum", "job-name: 1")
    file.write_text(MANIFEST.replace("          topologySpreadConstraints: [{maxSkew: 1}]\n", wrong))
    ran = windlass("render", "--for", "kubernetes", str(file))
    assert ran.code == 2
    assert "sum.yaml:13:47" in ran.err
    assert "matchLabels.training.kubeflow.org/job-name: expects a text, not 1; put it in quotes" in ran.err


def test_the_pods_of_a_command_are_printed(windlass):
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


def test_options_without_effect_are_refused(windlass, manifest):
    ran = windlass("render", "--for", "kubernetes", "-N", "2", manifest)
    assert ran.code == 2
    assert "holds manifests, which take no other options" in ran.err


def test_an_unknown_field_of_a_manifest_is_refused_reported_or_ignored(windlass, manifest):
    Path(manifest).write_text(MANIFEST.replace("template", "tempalte"))
    ran = windlass("render", "--for", "kubernetes", manifest)
    assert (ran.code, ran.out) == (2, "")
    assert f"{manifest}:7:7: spec.jaxReplicaSpecs.Worker.tempalte: unknown field; did you mean 'template'?" in ran.err
    assert ran.err.splitlines()[-1].endswith("--validate warn accepts it")

    Path(manifest).write_text(MANIFEST.replace("image", "tty: true, stdni: true, image"))
    assert windlass("render", "--for", "kubernetes", manifest).code == 2
    ran = windlass("render", "--for", "kubernetes", "--validate", "warn", manifest)
    assert ran.code == 0
    assert f"windlass: {manifest}:10: spec.jaxReplicaSpecs.Worker.template.spec.containers[0].stdni: unknown" in ran.err
    ran = windlass("render", "--for", "kubernetes", "--validate", "ignore", manifest)
    assert (ran.code, "stdni: true" in ran.out, "stdni" in ran.err) == (0, True, False)


def test_an_unknown_field_in_the_pod_of_a_job_file_is_refused_or_reported(windlass, tmp_path):
    (tmp_path / "job.yaml").write_text("image: a:1\ncommand: a\npod: {spec: {nodeSelectr: {a: b}}}\n")
    file = str(tmp_path / "job.yaml")
    ran = windlass("render", "--for", "kubernetes", file)
    assert ran.code == 2
    assert "job.yaml:3:14: pod.spec.nodeSelectr: unknown field; did you mean 'nodeSelector'?" in ran.err
    assert windlass("render", "--for", "kubernetes", "--validate", "warn", file).code == 0


@pytest.mark.parametrize(
    ("verb", "option"),
    [(("run",), "--on"), (("submit",), "--on"), (("render",), "--for"), (("render", "--for", "trainingjob"), "--for")],
)
def test_a_manifest_instead_of_a_job_file_is_one_error_with_the_option(windlass, manifest, verb, option):
    ran = windlass(*verb, manifest)
    assert ran.code == 2
    assert ran.err.startswith(
        f"windlass: {manifest}:2:1: this is a manifest of kind JAXJob, not a job file; add {option} kubernetes\n"
    )
    assert ran.err.count(manifest) == 1


@pytest.mark.parametrize(("verb", "option"), [("run", "--on"), ("submit", "--on"), ("render", "--for")])
def test_an_option_for_manifests_needs_kubernetes(windlass, manifest, verb, option):
    ran = windlass(verb, "--validate", "warn", manifest)
    assert ran.code == 2
    assert ran.err.endswith(f"add {option} kubernetes\n")


CRON = """\
name: nightly
command: python train.py
image: a:1
nodes: 2
cron: "0 3 * * *"
time_zone: Europe/Berlin
"""


def test_a_job_with_cron_is_the_cron_job_that_submit_creates(windlass, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(CRON)
    ran = windlass("render", "--for", "kubernetes", str(file))
    cron_job, service = yaml.safe_load_all(ran.out)
    assert (cron_job["kind"], cron_job["metadata"]["name"], service["kind"]) == ("CronJob", "nightly", "Service")
    assert (cron_job["spec"]["schedule"], cron_job["spec"]["timeZone"]) == ("0 3 * * *", "Europe/Berlin")
    assert cron_job["spec"]["jobTemplate"]["spec"]["completions"] == 2
    request = SubmitRequest(RunOptions(), (), str(file), schedules=True)
    submitted = build_objects(request, SimpleNamespace(namespace="team")).manifests
    for each in (cron_job, service):
        each["metadata"]["namespace"] = "team"
    assert submitted == [cron_job, service]


def test_unknown_fields_of_pods_are_refused_in_a_job_with_cron_too(windlass, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(CRON + "pod: {spec: {nodeNmae: a}}\n")
    ran = windlass("render", "--for", "kubernetes", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert "unknown field; did you mean 'nodeName'?" in ran.err
    with pytest.raises(InputError, match="nodeNmae: unknown field"):
        build_objects(SubmitRequest(RunOptions(), (), str(file), schedules=True), SimpleNamespace(namespace="team"))
