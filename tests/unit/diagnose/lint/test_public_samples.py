"""Rules raise no false alarm on the sample files of operators, as far as they are on this machine.

Those of modules are in the Go module cache: `go mod download MODULE` fetches one. Those of repositories are below the
folder WINDLASS_SAMPLES, as OWNER/NAME/PATH. The samples are not part of the project, only the list of their faults is.
"""

import os
import re
from pathlib import Path

import pytest
import yaml

from windlass.diagnose.lint.engine import lint_paths

CACHE = Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")
FILES = Path(os.environ.get("WINDLASS_SAMPLES") or "/nonexistent")
SAMPLES = yaml.safe_load(Path(__file__).with_name("public_samples.yaml").read_text())
MODULES = [sample for sample in SAMPLES if "module" in sample]
SINGLE_FILES = [
    pytest.param(Path(sample["repository"], name), file.get("findings", []), id=f"{sample['repository']}/{name}")
    for sample in SAMPLES
    for name, file in sample.get("files", {}).items()
]


def folder_of(module):
    """The folder of a module; the cache writes a capital letter as ! and the small one."""
    return CACHE / re.sub("[A-Z]", lambda found: "!" + found[0].lower(), module)


@pytest.mark.parametrize("sample", MODULES, ids=lambda sample: sample["module"])
def test_samples_of_operators_raise_only_the_listed_rules(sample):
    module = folder_of(sample["module"])
    if not module.is_dir():
        pytest.skip(f"{sample['module']} is not in the Go module cache")
    found: dict[str, set[str]] = {}
    for finding in lint_paths([str(module / name) for name in sample["folders"] if (module / name).is_dir()]):
        found.setdefault(str(Path(finding.source).relative_to(module)), set()).add(finding.rule)
    assert {name: sorted(rules) for name, rules in found.items()} == sample.get("findings", {})


@pytest.mark.parametrize(("path", "rules"), SINGLE_FILES)
def test_a_sample_of_a_repository_raises_only_the_listed_rules(path, rules):
    if not (FILES / path).is_file():
        pytest.skip(f"{path} is not below the folder WINDLASS_SAMPLES")
    assert sorted({finding.rule for finding in lint_paths([str(FILES / path)])}) == rules
