import hashlib
import re
import subprocess
from pathlib import Path

import write_provenance

import windlass

ROOT = Path(__file__).parents[2]


def test_the_provenance_names_every_file_the_commit_and_the_lock(tmp_path):
    (tmp_path / "windlass.whl").write_bytes(b"wheel")
    (tmp_path / write_provenance.STATEMENT).write_text("of an earlier build")
    statement = write_provenance.provenance(tmp_path, "abc", builder="https://builder.example")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    digest = {"sha256": hashlib.sha256(b"wheel").hexdigest()}
    assert statement["subject"] == [{"name": "windlass.whl", "digest": digest}]
    predicate = statement["predicate"]
    assert predicate["runDetails"] == {"builder": {"id": "https://builder.example"}}
    source, lock, *packages = predicate["buildDefinition"]["resolvedDependencies"]
    assert source == {"name": "source", "digest": {"gitCommit": "abc"}}
    assert lock["digest"] == {"sha256": hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()}
    assert any(package["uri"].startswith("pkg:pypi/numpy@") for package in packages)


def test_the_recipe_makes_package_chart_sbom_and_provenance():
    recipe = subprocess.run(["make", "-n", "release"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for part in ("uv build", "cyclonedx-py requirements", "windlass-chart.tgz", "write_provenance.py dist"):
        assert part in recipe, part


def test_the_image_is_for_two_architectures_without_root_and_from_a_digest():
    bake = (ROOT / "deploy/docker-bake.hcl").read_text()
    assert '["linux/amd64", "linux/arm64"]' in bake
    assert f'default = "{windlass.__version__}"' in bake
    [pattern] = re.findall(r'regexall\("(.*?)", BASE\)', bake)
    assert re.search(pattern, f"python:3.13-slim@sha256:{'0' * 64}")
    assert not re.search(pattern, "python:3.13-slim")
    users = re.findall(r"^USER (.*)$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    assert [re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) is not None for user in users] == [True]


def test_the_image_has_every_file_that_its_build_names():
    recipe = (ROOT / "deploy/Dockerfile").read_text()
    allowed = set(re.findall(r"^!(.*)$", (ROOT / "deploy/Dockerfile.dockerignore").read_text(), re.MULTILINE))
    copied = [word for line in re.findall(r"^COPY (?!--)(.*)$", recipe, re.MULTILINE) for word in line.split()[:-1]]
    assert set(copied) <= allowed
    assert all((ROOT / name).exists() for name in copied)
    package = (ROOT / "pyproject.toml").read_text()
    [hook] = re.findall(r'^path = "(tools/.*)"$', package, re.MULTILINE)
    assert hook in copied
