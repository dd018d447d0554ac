import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)$", LOCK, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def wanted():
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    return {re.match(r"[A-Za-z0-9.-]+", line)[0].lower() for line in lines}


def test_every_dependency_is_pinned():
    assert wanted() <= PINNED.keys()


def test_the_lock_names_packages_and_versions_and_nothing_else():
    lines = [line for line in LOCK.splitlines() if not line.lstrip().startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[^\s/@]+", line) for line in lines)


def test_no_index_is_named():
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", LOCK)


def test_torch_is_the_version_that_imports_fast():
    assert PINNED["torch"].startswith("2.13.")


def test_torch_is_asked_for_only_by_the_extra_train():
    torch = re.compile(r"torch(?![\w-])")  # torchao is another package
    assert not any(torch.match(line) for line in PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert [name for name, lines in extras.items() if any(torch.match(line) for line in lines)] == ["train"]
