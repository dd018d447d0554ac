import hashlib
import subprocess
from pathlib import Path

import write_provenance

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
