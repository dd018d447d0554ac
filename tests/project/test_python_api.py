"""The generated parts of the Python API are up to date, and its names cost nothing until they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import write_async_client
import write_python_api

import windlass

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src/windlass/__init__.pyi"


def test_the_asynchronous_client_is_the_one_of_the_client():
    assert write_async_client.render(write_async_client.SOURCE.read_text()) == write_async_client.TARGET.read_text()


def test_the_page_has_every_public_name_with_its_signature_and_docstring():
    assert write_python_api.render() == write_python_api.PAGE.read_text()
    undocumented = [name for name in windlass.__all__ if not getattr(windlass, name).__doc__]
    assert undocumented == []


def test_the_stub_has_the_names_of_the_package():
    tree = ast.parse(STUB.read_text())
    imported = {
        alias.asname: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported.keys() | {"__version__"} == set(windlass.__all__)
    assert all(getattr(windlass, name).__module__ == module for name, module in imported.items())


def test_the_import_of_the_package_loads_nothing():
    code = "import sys; before = set(sys.modules); import windlass; print(sorted(set(sys.modules) - before))"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    assert ran.stdout.strip() == "['__future__', 'windlass']"
