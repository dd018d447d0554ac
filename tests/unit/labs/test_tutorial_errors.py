"""The proofs of the guide to tutorial errors that need neither ranks nor the SDK of pipelines."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from pathlib import Path

import yaml

from documented_blocks import BLOCKS
from windlass.diagnose.lint.engine import lint_paths
from windlass.jobs.kubernetes.kinds.registry import members, read

SHOWN = ("WORLD_SIZE", "RANK", "PET_NNODES", "PET_NPROC_PER_NODE")


def test_lint_finds_four_settings(tmp_path):
    (tmp_path / "train.yaml").write_text(BLOCKS["train.yaml"])
    findings = lint_paths([str(tmp_path / "train.yaml")])
    assert {finding.rule for finding in findings} == {
        "python-call-obsolete",
        "torch-launch-obsolete",
        "nccl-variable-invented",
        "nccl-net-of-efa",
    }
    shown = BLOCKS["windlass lint train.yaml"]
    assert all(f"{finding.message} [{finding.rule}]" in shown for finding in findings)


def test_the_nccl_of_torch_has_no_variable_with_the_name():
    [folder] = importlib.util.find_spec("nvidia.nccl").submodule_search_locations
    library = (Path(folder) / "lib/libnccl.so.2").read_bytes()
    assert b"\0NCCL_IB_TIMEOUT\0" in library
    assert b"NCCL_TIMEOUT" not in library


def test_the_rate_cannot_grow_with_the_batch_for_ever():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(BLOCKS["rates.py"], {})  # noqa: S102 - a program of our own page
    assert printed.getvalue() == BLOCKS["python rates.py"]


def test_the_variables_of_pods_count_processes_and_number_pods():
    job = yaml.safe_load(BLOCKS["pods.yaml"])
    job["metadata"] |= {"namespace": "default", "uid": "7c1e"}
    lines = [line_of(member) for member in members(read(job), generation=1)]
    assert "\n".join(lines) + "\n" == BLOCKS["windlass render --for kubernetes pods.yaml"]


def test_without_a_number_of_processes_the_world_of_a_pod_is_that_of_pods():
    job = yaml.safe_load(BLOCKS["pods.yaml"])
    job["metadata"] |= {"namespace": "default", "uid": "7c1e"}
    job["spec"]["nprocPerNode"] = "auto"
    assert all("WORLD_SIZE=2 " in line_of(member) for member in members(read(job), generation=1))


def line_of(member):
    """Name and variables of a pod, as the page shows them."""
    variables = {each["name"]: each["value"] for each in member.pod["spec"]["containers"][0]["env"]}
    return f"{member.name}  " + " ".join(f"{name}={variables[name]}" for name in SHOWN)
