"""Rules raise no false alarm on the sample files of operators, as far as the Go module cache has them.

`go mod download MODULE` fetches one. The samples are not part of the project, only the list of their faults is.
"""

import os
import re
from pathlib import Path

import pytest
import yaml

from windlass.diagnose.lint.engine import lint_paths

CACHE = Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")
SAMPLES = yaml.safe_load(Path(__file__).with_name("public_samples.yaml").read_text())


def folder_of(module):
    """The folder of a module; the cache writes a capital letter as ! and the small one."""
    return CACHE / re.sub("[A-Z]", lambda found: "!" + found[0].lower(), module)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["module"])
def test_samples_of_operators_raise_only_the_listed_rules(sample):
    module = folder_of(sample["module"])
    if not module.is_dir():
        pytest.skip(f"{sample['module']} is not in the Go module cache")
    found: dict[str, set[str]] = {}
    for finding in lint_paths([str(module / name) for name in sample["folders"] if (module / name).is_dir()]):
        found.setdefault(str(Path(finding.source).relative_to(module)), set()).add(finding.rule)
    assert {name: sorted(rules) for name, rules in found.items()} == sample.get("findings", {})
