"""`run` and `submit` check manifests: errors of `windlass lint` stop them, warnings are reported."""

import pytest

MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            image: example.com/mnist
            env: [{name: NCCL_DEBUG, value: INFO}]
            resources: {limits: {nvidia.com/gpu: 1}}
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "mnist.yaml"


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_an_error_of_lint_stops_the_job_with_the_way_out(cluster, windlass, file, verb):
    file.write_text(MANIFEST.replace("nvidia.com/gpu", "nvidia.com/gpus"))
    ran = windlass(verb, "--on", "kubernetes", str(file))
    assert ran.code == 2
    assert "write nvidia.com/gpu [gpu-resource-misspelt]" in ran.err
    assert "--no-lint" in ran.err
    assert cluster.of_kind("PyTorchJob") == []


def test_a_warning_of_lint_is_reported_and_the_job_is_created(cluster, submit, file):
    file.write_text(MANIFEST.replace("INFO", "LOUD"))
    ran = submit(str(file))
    assert ran.code == 0
    assert "'LOUD' is no level [nccl-debug-level]" in ran.err
    assert cluster.of_kind("PyTorchJob")


def test_no_lint_submits_a_manifest_with_an_error(cluster, submit, file):
    file.write_text(MANIFEST.replace("nvidia.com/gpu", "nvidia.com/gpus"))
    assert submit("--no-lint", str(file)).code == 0
    assert cluster.of_kind("PyTorchJob")


def test_a_comment_in_the_manifest_ignores_a_rule(submit, file):
    file.write_text("# windlass: ignore-file[gpu-resource-misspelt]\n" + MANIFEST.replace("com/gpu", "com/gpus"))
    assert submit(str(file)).code == 0


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_no_lint_is_refused_for_a_job_of_this_machine(windlass, verb):
    ran = windlass(verb, "--no-lint", "--", "true")
    assert ran.code == 2
    assert "--no-lint is for Kubernetes manifests" in ran.err
