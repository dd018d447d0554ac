"""`render --for kubernetes`: the objects of a job."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from windlass.cli.kubernetes import submission
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


def cluster(monkeypatch, *, serves_schedules):
    """A finder of jobs in a cluster that has the kind CronTrainingJob, or lacks it."""
    monkeypatch.setattr(submission, "serves_training_schedules", lambda _session: serves_schedules)
    return SimpleNamespace(namespace="team", session=None)


def rendered(windlass, tmp_path, target):
    file = tmp_path / "job.yaml"
    file.write_text(CRON)
    ran = windlass("render", "--for", target, str(file))
    assert ran.code == 0, ran.err
    return SubmitRequest(RunOptions(), (), str(file), schedules=True), list(yaml.safe_load_all(ran.out))


def of_team(objects):
    return [{**each, "metadata": {**each["metadata"], "namespace": "team"}} for each in objects]


def test_a_job_with_cron_is_the_schedule_that_submit_creates(windlass, tmp_path, monkeypatch):
    request, objects = rendered(windlass, tmp_path, "kubernetes")
    [schedule] = objects
    assert (schedule["kind"], schedule["metadata"]) == ("CronTrainingJob", {"name": "nightly"})
    submitted = build_objects(request, cluster(monkeypatch, serves_schedules=True))
    assert submitted.manifests == of_team(objects)
    assert submitted.notes == []


def test_a_schedule_is_a_cron_job_where_the_kind_is_missing_and_submit_says_so(windlass, tmp_path, monkeypatch):
    request, objects = rendered(windlass, tmp_path, "cronjob")
    cron_job, service = objects
    assert (cron_job["kind"], cron_job["metadata"]["name"], service["kind"]) == ("CronJob", "nightly", "Service")
    assert (cron_job["spec"]["schedule"], cron_job["spec"]["timeZone"]) == ("0 3 * * *", "Europe/Berlin")
    assert cron_job["spec"]["jobTemplate"]["spec"]["completions"] == 2
    submitted = build_objects(request, cluster(monkeypatch, serves_schedules=False))
    assert submitted.manifests == of_team(objects)
    [note] = submitted.notes
    assert note.startswith("this cluster lacks the kind CronTrainingJob: the schedule is a CronJob")


def test_a_cron_job_is_only_of_a_job_with_cron(windlass, manifest):
    for words in (("--image", "a:1", "--", "true"), (manifest,)):
        ran = windlass("render", "--for", "cronjob", *words)
        assert (ran.code, ran.out) == (2, "")
        assert "--for cronjob prints a job with cron\nadd --cron to a job" in ran.err


def test_unknown_fields_of_pods_are_refused_in_a_job_with_cron_too(windlass, tmp_path, monkeypatch):
    file = tmp_path / "job.yaml"
    file.write_text(CRON + "pod: {spec: {nodeNmae: a}}\n")
    ran = windlass("render", "--for", "kubernetes", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert "unknown field; did you mean 'nodeName'?" in ran.err
    with pytest.raises(InputError, match="nodeNmae: unknown field"):
        build_objects(
            SubmitRequest(RunOptions(), (), str(file), schedules=True), cluster(monkeypatch, serves_schedules=True)
        )
