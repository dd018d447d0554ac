"""`--fix` writes what is safe, keeps all other characters, and leaves a file alone that it would make worse."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.cli.entry import main
from windlass.diagnose.lint.engine import lint_paths, lint_texts
from windlass.diagnose.lint.replacement import fix_paths, fix_stream
from windlass.jobs.syntax.text import Text

BROKEN = Path(__file__).parents[4] / "examples/broken"
FIXABLE = [
    path for path in sorted(BROKEN.iterdir()) if any(each.replacement is not None for each in lint_paths([str(path)]))
]


@pytest.mark.parametrize("path", FIXABLE, ids=lambda path: path.stem)
def test_a_fixed_file_has_no_finding_of_its_rule_that_could_be_fixed(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert fix_paths([str(copy)]) > 0
    assert [each for each in lint_paths([str(copy)]) if each.replacement is not None] == []


def test_several_rules_can_be_fixed():
    assert len(FIXABLE) >= 15


def test_a_fix_keeps_comments_line_ends_and_the_mode_of_the_file(tmp_path):
    file = tmp_path / "pod.yaml"
    before = (
        "\ufeffapiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\nspec:\r\n  containers:\r\n  - name: é # ü\r\n"
        "    image: a\r\n    resources: {limits: {memory: 4GB}} # four\r\n"
    ).replace("name: é", "name: e")
    file.write_bytes(before.encode())
    file.chmod(0o640)
    assert fix_paths([str(file)]) == 1
    assert file.read_bytes().decode() == before.replace("4GB", "4G")
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_a_fix_of_a_script_writes_the_new_name_of_a_variable(tmp_path):
    file = tmp_path / "job.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --nodes=1\nexport NCCL_BLOCKING_WAIT=0  # off\n")
    assert fix_paths([str(file)]) == 1
    assert file.read_text().endswith("\nexport TORCH_NCCL_BLOCKING_WAIT=0  # off\n")


def test_a_fixed_file_exits_with_0(tmp_path, capsys):
    file = tmp_path / "env.yaml"
    file.write_bytes((BROKEN / "env-value-no-text.yaml").read_bytes())
    assert main(["lint", str(file)]) == 1
    assert main(["lint", "--fix", str(file)]) == 0
    assert "fixed 1 fault" in capsys.readouterr().err


def filtered(monkeypatch, data, *words):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    return main(["lint", "--fix", "-", *words])


def test_standard_input_is_mended_to_standard_output(monkeypatch, capfdbinary):
    data = (BROKEN / "env-value-no-text.yaml").read_bytes()
    assert filtered(monkeypatch, data) == 0
    printed = capfdbinary.readouterr()
    assert lint_texts([Text("a.yaml", printed.out.decode())]) == []
    assert printed.err.decode() == "fixed 1 fault\nno findings\n"


def test_a_filter_passes_on_what_it_cannot_mend(monkeypatch, capfdbinary):
    data = b"\xef\xbb\xbfkind: [\r\n"
    assert filtered(monkeypatch, data) == 1
    printed = capfdbinary.readouterr()
    assert printed.out == data
    assert b"[unreadable-file]" in printed.err


def test_a_filter_takes_no_files(monkeypatch, capsys):
    assert filtered(monkeypatch, b"", "a.yaml") == 2
    assert "takes no files beside -" in capsys.readouterr().err


def test_a_missing_version_is_written_before_the_kind(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes((BROKEN / "api-version-missing.yaml").read_bytes())
    assert fix_paths([str(file)]) == 1
    assert "\napiVersion: v1\nkind: Service\n" in file.read_text()


SLIPS = {
    "kind: PyTorchJob": "kind: PytorchJob",
    "cleanPodPolicy: Running": "cleanPodPolicy: running",
    "backoffLimit": "backofLimit",
    "pytorchReplicaSpecs": "replicaSpec",
    "Worker:": "Wroker:",
    "restartPolicy: OnFailure": "restartPolicy: OnFaliure",
    "containers:": "contaners:",
    "imagePullPolicy: 'IfNotPresent'": "imagePullPolicy: 'ifnotpresent'",
    "nvidia.com/gpu:": "nvidia.com/gpus:",
    "memory: 16G ": "memory: 16GB ",
    'value: "3"': "value: 3",
    "effect: NoSchedule": "effect: noSchedule",
}
RIGHT = """# 第一 job\r
apiVersion: kubeflow.org/v1\r
kind: PyTorchJob   # Kubeflow's\r
metadata: {name: train}\r
spec:\r
  runPolicy: {cleanPodPolicy: Running, backoffLimit: 3}\r
  pytorchReplicaSpecs:\r
    Worker:\r
      replicas: 2\r
      restartPolicy: OnFailure\r
      template:\r
        spec:\r
          tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]\r
          containers: # one\r
          - name: pytorch\r
            image: train:1\r
            imagePullPolicy: 'IfNotPresent'\r
            env: [{name: EPOCHS, value: "3"}]\r
            resources: {limits: {memory: 16G , nvidia.com/gpu: 1}}\r
"""


@given(st.sets(st.sampled_from(sorted(SLIPS)), min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_file_with_slips_is_mended_to_what_it_was(slips):
    wrong = RIGHT
    for right in slips:
        assert wrong.count(right) == 1
        wrong = wrong.replace(right, SLIPS[right])
    mended, count, left = fix_stream(wrong.encode(), "job.yaml")
    assert (mended.decode(), count, left) == (RIGHT, len(slips), [])


def test_a_name_that_two_known_ones_are_near_to_is_not_replaced():
    policy = "elasticPolicy: {mxReplicas: 3}"
    data = RIGHT.replace("runPolicy: {", f"{policy}\r\n  runPolicy: {{").encode()
    assert fix_stream(data, "job.yaml")[:2] == (data, 0)


def test_a_name_whose_right_form_stands_beside_it_is_not_replaced():
    data = RIGHT.replace("backoffLimit: 3", "backoffLimit: 3, backofLimit: 4").encode()
    assert fix_stream(data, "job.yaml")[:2] == (data, 0)


def test_a_replacement_that_makes_a_file_worse_does_not_keep_the_others_back():
    limits = "requests: {memory: 1Gi, nvidia.com/gpus: 2}, limits: {nvidia.com/gpu: 1}"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: a\n"
    data = f"{pod}    imagePullPolicy: always\n    resources: {{{limits}}}\n".encode()
    mended, count, _ = fix_stream(data, "a.yaml")
    assert (b"imagePullPolicy: Always" in mended, count) == (True, 1)
