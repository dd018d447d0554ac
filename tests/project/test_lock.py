import re
import tomllib
from pathlib import Path

import lock_subset
import pytest

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PIPELINES_LOCK = (ROOT / "requirements-pipelines.lock").read_text()
"""Versions of the extras whose pins exclude those of the others."""
PIPELINE_EXTRAS = ("torchx", "kfp", "airflow")
PINNED = dict(re.findall(r"^([a-z0-9.-]+)==(\S+) \\$", LOCK, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


EXTRAS = [name for name in PROJECT["optional-dependencies"] if name not in PIPELINE_EXTRAS]
LOCKS = pytest.mark.parametrize("lock", [LOCK, PIPELINES_LOCK], ids=["requirements", "requirements-pipelines"])


def pinned(lock):
    return re.findall(r"^([a-z0-9.-]+)==\S+ \\$", lock, re.MULTILINE)


@pytest.mark.parametrize(
    ("lock", "extras"), [(LOCK, EXTRAS), (PIPELINES_LOCK, PIPELINE_EXTRAS)], ids=["requirements", "pipelines"]
)
def test_every_dependency_is_pinned(lock, extras):
    assert set(lock_subset.packages_of(extras)) <= set(pinned(lock))


@LOCKS
def test_the_lock_names_packages_versions_and_hashes_and_nothing_else(lock):
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith("#")]
    pin, file_hash = r"[a-z0-9.-]+==[^\s/@]+ \\", r"    --hash=sha256:[0-9a-f]{64}( \\)?"
    assert all(re.fullmatch(f"{pin}|{file_hash}", line) for line in lines)


@LOCKS
def test_every_pin_has_a_hash(lock):
    assert len(re.findall(r"^[a-z0-9.-]+==\S+ \\\n    --hash=", lock, re.MULTILINE)) == len(pinned(lock))


def test_a_subset_has_the_packages_of_its_extras_and_what_they_need():
    subset = lock_subset.lock_subset(lock_subset.packages_of(["kubernetes"]), LOCK)
    names = set(re.findall(r"^([a-z0-9.-]+)==", subset, re.MULTILINE))
    assert {"numpy", "aiohttp", "multidict", "psycopg-binary"} <= names
    assert not {"torch", "pytest", "sphinx", "windlass"} & names
    assert subset.count("--hash=") > len(names)


def test_all_extras_together_need_the_whole_lock():
    everything = lock_subset.lock_subset(lock_subset.packages_of(EXTRAS), LOCK)
    assert set(re.findall(r"^([a-z0-9.-]+)==", everything, re.MULTILINE)) == PINNED.keys()


def test_a_package_that_the_lock_lacks_is_no_subset():
    with pytest.raises(KeyError):
        lock_subset.lock_subset(["no-such-package"], LOCK)


def test_installations_require_hashes():
    for file in ("tools/install.sh", "deploy/Dockerfile"):
        text = (ROOT / file).read_text().replace("\\\n", " ")
        installs = [line for line in text.splitlines() if re.search(r"pip install", line)]
        assert installs
        assert all("--require-hashes" in line or "--no-deps" in line for line in installs)


@LOCKS
def test_no_index_is_named(lock):
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", lock)


def test_torch_is_the_version_that_imports_fast():
    assert PINNED["torch"].startswith("2.13.")


def test_torch_is_asked_for_only_by_the_extra_train():
    torch = re.compile(r"torch(?![\w-])")  # torchao is another package
    assert not any(torch.match(line) for line in PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    assert [name for name, lines in extras.items() if any(torch.match(line) for line in lines)] == ["train"]
