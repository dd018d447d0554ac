"""A file that is no text, no YAML or too large is one finding, soon; no value makes a rule slow."""

import time

import pytest

from windlass.diagnose.lint.engine import MAX_BYTES, lint_paths, lint_texts
from windlass.jobs.syntax.text import Text

LONG = 200_000
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 10)
)
UNREADABLE = {
    "bomb": BOMB.encode(),
    "binary": bytes(range(256)) * 64,
    "utf-16": "kind: Pod\n".encode("utf-16"),
    "latin-1": "name: é\n".encode("latin-1"),
    "nul": b"kind: Pod\n\0",
    "deep list": b"[" * 5000,
    "deep map": b"".join(b" " * level + b"a:\n" for level in range(500)),
    "alias of itself": b"a: &a [*a]\n",
    "unclosed quotes": b'a: "' + b"x" * LONG,
    "tab": b"a:\n\tb: c\n",
    "tag": b"a: !!python/object:os.system x\n",
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_finding(content, tmp_path):
    file = tmp_path / "file.yaml"
    file.write_bytes(content)
    start = time.monotonic()
    assert [each.rule for each in lint_paths([str(file)])] == ["unreadable-file"]
    assert time.monotonic() - start < 10


def test_a_file_that_is_too_large_is_one_finding(tmp_path):
    file = tmp_path / "file.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    [finding] = lint_paths([str(file)])
    assert "larger than" in finding.message


POD = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - {name: a, image: %s, command: [%s], env: [{name: A, value: %s}], resources: {limits: {memory: %s}}}
"""


@pytest.mark.parametrize("character", ["a", "/", "0", "-", "(", "$", ".", "$(", "a/", "--nnodes ", "a:"])
def test_a_long_value_does_not_make_a_rule_slow(character):
    value = f'"{character * (LONG // len(character))}"'
    start = time.monotonic()
    lint_texts([Text("pod.yaml", POD % (value, value, value, value))])
    lint_texts([Text("job.sbatch", f"#!/bin/bash\n#SBATCH --time={value}\n# SBATCH{value}\nsrun torchrun {value}\n")])
    assert time.monotonic() - start < 10


def test_thousands_of_documents_take_time_in_proportion():
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: s%d}\nspec: {selector: {app: a%d}}\n---\n"
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d, labels: {app: a%d}}\n"
        "spec: {containers: [{name: a, image: a}]}\n---\n"
    )
    text = "".join(part % (number, number) for number in range(2000) for part in (service, pod))
    start = time.monotonic()
    assert lint_texts([Text("all.yaml", text)]) == []
    assert time.monotonic() - start < 10
