"""The Helm chart and the kustomizations on an API server: installed, upgraded, rolled back, removed.

The server has no nodes. Tests of `windlass operator install`, which applies the same objects, start the operator.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import yaml
from planes.fixtures import serve

from windlass.cli.entry import main
from windlass.controlplane import cluster
from windlass.controlplane.build import find
from windlass.deploy.installation import IMAGE, installation_objects
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes.operator_names import NAMESPACE

pytestmark = pytest.mark.installers
APART = ("Namespace", "Queue", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
"""Kinds that are not in the chart: Helm makes the namespace, `deploy/chart.py` has the reasons of the others."""
JOB = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {"command": ["train"], "image": "i"},
}


@pytest.fixture
def plane(request):
    """An API server without any kind of ours."""
    yield from serve(request, cluster.Settings())


@pytest.fixture
def run(plane):
    """Runs helm, kustomize or kubectl on the server to its end; returns its output."""

    def program(name, *words, text=""):
        access = [] if name == "kustomize" else ["--kubeconfig", plane.kubeconfig]
        return run_program(name, *words, *access, text=text)

    return program


def run_program(name, *words, text=""):
    ran = subprocess.run([find(name), *words], input=text, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def files(tmp_path):
    """The files that the command line writes."""
    assert main(["operator", "files", str(tmp_path)]) == 0
    return tmp_path


@pytest.fixture
def older_chart(files):
    """The chart of an earlier release, whose definition of a TrainingJob has a field less."""
    chart = shutil.copytree(files / "helm/windlass", files / "older")
    templates = (chart / "templates/windlass.yaml").read_text().splitlines()
    head, *lines, end = templates[1:] if templates[0].startswith("#") else templates
    objects = list(yaml.load_all("\n".join(lines), yaml.CSafeLoader))
    [jobs] = [each for each in objects if each["metadata"]["name"] == "trainingjobs.windlass.dev"]
    del spec_fields(jobs)["mesh"]
    written = yaml.dump_all(objects, Dumper=yaml.CSafeDumper)
    (chart / "templates/windlass.yaml").write_text(f"{head}\n{written}{end}\n")
    about = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(about.replace("0.1.0", "0.0.9"))
    return chart


def spec_fields(definition):
    [version] = definition["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def image_of(run):
    shown = run("kubectl", "get", "deployment", "windlass-operator", "-n", NAMESPACE, "-o", "json")
    return json.loads(shown)["spec"]["template"]["spec"]["containers"][0]["image"]


def serves_field(run, field):
    shown = run("kubectl", "get", "crd", "trainingjobs.windlass.dev", "-o", "json")
    return field in spec_fields(json.loads(shown))


def exists(run, name):
    return run("kubectl", "get", name, "--ignore-not-found", "-o", "name") != ""


def submit(run):
    """Creates a job; a new kind is admitted some seconds after it is served."""
    run("kubectl", "wait", "--for=condition=Established", "crd/trainingjobs.windlass.dev", "--timeout=60s")
    run("kubectl", "apply", "--server-side", "-f", "-", text=json.dumps(JOB))


def objects_of(text):
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def names_of(objects):
    return {(each["kind"], each["metadata"]["name"]) for each in objects if each["kind"] not in APART}


OURS = names_of(installation_objects(Setup(IMAGE)))
WHERE = ("windlass", "-n", NAMESPACE)


def test_a_release_of_helm_is_installed_upgraded_rolled_back_and_removed_without_loss_of_jobs(run, files, older_chart):
    run("helm", "install", "windlass", older_chart, "-n", NAMESPACE, "--create-namespace")
    assert names_of(objects_of(run("helm", "get", "manifest", *WHERE))) == OURS
    assert not serves_field(run, "mesh")
    submit(run)

    chart = files / "helm/windlass"
    chosen = ("image.repository=registry.example/windlass", "image.tag=0.1.0", "replicas=3")
    run("helm", "upgrade", "windlass", chart, "-n", NAMESPACE, *(word for each in chosen for word in ("--set", each)))
    assert image_of(run) == "registry.example/windlass:0.1.0"
    assert serves_field(run, "mesh")
    assert exists(run, "trainingjobs/digits")

    run("helm", "rollback", "windlass", "1", "-n", NAMESPACE)
    assert image_of(run) == IMAGE
    assert exists(run, "trainingjobs/digits")
    history = json.loads(run("helm", "history", *WHERE, "-o", "json"))
    assert [(each["chart"], each["status"]) for each in history] == [
        ("windlass-0.0.9", "superseded"),
        ("windlass-0.1.0", "superseded"),
        ("windlass-0.0.9", "deployed"),
    ]

    run("helm", "uninstall", *WHERE)
    assert not exists(run, "clusterrole/windlass-operator")
    assert run("kubectl", "get", "deployments,services,roles", "-n", NAMESPACE, "-o", "name") == ""
    assert exists(run, "trainingjobs/digits")

    run("helm", "install", "windlass", chart, "-n", NAMESPACE)  # adopts the definitions that it has kept
    assert serves_field(run, "mesh")
    assert exists(run, "trainingjobs/digits")


def test_a_kustomization_is_installed_upgraded_rolled_back_and_removed_without_loss_of_jobs(run, files):
    site = files / "site"
    site.mkdir()

    def apply(image):
        (site / "kustomization.yaml").write_text(
            f"resources: [../kustomize/overlays/default]\nimages: [{{name: windlass, newName: {image}, newTag: v1}}]\n"
        )
        built = run("kustomize", "build", site)
        run("kubectl", "apply", "--server-side", "-f", "-", text=built)
        return names_of(objects_of(built))

    assert apply("registry.example/old") == OURS
    submit(run)
    apply("registry.example/new")
    assert image_of(run) == "registry.example/new:v1"
    apply("registry.example/old")
    assert image_of(run) == "registry.example/old:v1"

    run("kubectl", "delete", "-k", files / "kustomize/base", "--wait=false")
    assert run("kubectl", "get", "deployments", "-A", "-o", "name") == ""
    assert not exists(run, "clusterrole/windlass-operator")
    assert exists(run, "trainingjobs/digits")


def test_helm_finds_no_fault_with_the_chart_and_renders_the_objects_of_the_command(files):
    assert "0 chart(s) failed" in run_program("helm", "lint", "--strict", files / "helm/windlass")
    rendered = objects_of(run_program("helm", "template", *WHERE, files / "helm/windlass"))
    specs = {(each["kind"], each["metadata"]["name"]): each.get("spec") for each in rendered}
    wanted = [each for each in installation_objects(Setup(IMAGE)) if each["kind"] not in APART]
    assert specs == {(each["kind"], each["metadata"]["name"]): each.get("spec") for each in wanted}
