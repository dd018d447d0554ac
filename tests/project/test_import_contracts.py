"""The import contracts name every package, so that a new one needs a decision about its place."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/windlass"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
OPTIONAL = "("
"""A layer in brackets may be absent."""


def layers(contract):
    """Modules of a contract's layers, in brackets where they are optional."""
    containers = contract.get("containers", [""])
    names = [name.strip() for layer in contract.get("layers", []) for name in layer.replace(":", "|").split("|")]
    return [".".join(filter(None, (container, name))) for container in containers for name in names]


def named(contract):
    """Modules of ours that a contract restricts."""
    lists = (contract.get(key, []) for key in ("source_modules", "modules", "ancestors"))
    return {*layers(contract), *(name for names in lists for name in names)}


def exists(module):
    path = ROOT / "src" / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_package_is_named_in_a_contract():
    names = {name.strip("()") for contract in CONTRACTS for name in named(contract)}
    packages = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in SOURCE.rglob("__init__.py")}
    assert packages <= names


def test_every_module_that_a_contract_restricts_exists():
    names = {name for contract in CONTRACTS for name in named(contract)}
    assert not [name for name in names if not name.startswith(OPTIONAL) and not exists(name)]


def test_the_sub_packages_of_the_kubernetes_backend_are_in_layers():
    backend = "windlass.backends.kubernetes"
    [ordered] = [
        layers(each) for each in CONTRACTS if each["type"] == "layers" and backend in each.get("containers", ())
    ]
    packages = {f"{backend}.{path.parent.name}" for path in (SOURCE / "backends/kubernetes").glob("*/__init__.py")}
    assert packages <= set(ordered)
