from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from windlass.client.errors import InvalidRequestError
from windlass.client.function_source import source_of

CODE = "def train():\n    return 1\n"


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Imports a module from a file below the test's folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def load(name: str, path: str, code: str = CODE):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "path"),
    [("one_train", "one_train.py"), ("one_pkg.train", "one_pkg/train.py"), ("two_pkg", "two_pkg/__init__.py")],
)
def test_a_function_of_a_module_is_imported_from_the_folder_above(importing, tmp_path: Path, name: str, path: str):
    source = source_of(importing(name, path).train)
    assert (source.module, source.folder, source.is_shipped) == (name, str(tmp_path), True)
    assert source.script == str(tmp_path / path)


def test_an_installed_module_is_not_shipped(importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    source = source_of(importing("an_installed", "site-packages/an_installed.py").train)
    assert (source.module, source.is_shipped) == ("an_installed", False)


def test_a_function_of_a_script_names_its_file(importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = importing("as_script", "as_script.py")
    monkeypatch.setattr(module.train, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    source = source_of(module.train)
    assert (source.module, source.file, source.folder) == ("", "as_script.py", str(tmp_path))


def test_a_function_under_a_decorator_of_another_module_is_in_its_own(importing, tmp_path: Path):
    importing("decorated", "decorated.py", "import contextlib\n@contextlib.contextmanager\ndef train():\n    yield\n")
    source = source_of(sys.modules["decorated"].train)
    assert (source.module, source.folder) == ("decorated", str(tmp_path))


@pytest.mark.parametrize("name", ["a", "a.b", "x.y", "a.b.c.d.e.f.g.h.i.j.k.l.m.n"])
def test_a_module_whose_file_has_another_path_than_its_name_is_sent_as_a_file(tmp_path: Path, name: str):
    (tmp_path / "x.py").write_text(CODE)
    spec = importlib.util.spec_from_file_location(name, tmp_path / "x.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    source = source_of(module.train)
    assert (source.module, source.file, source.folder) == ("", "x.py", str(tmp_path))


def test_functions_that_no_rank_could_import_are_refused():
    def inner() -> None: ...

    for function in (inner, lambda: 1, len):
        with pytest.raises(InvalidRequestError, match="is not a function of a module\ndefine it with def"):
            source_of(function)


def test_a_function_without_any_text_is_refused():
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(CODE, namespace)  # noqa: S102 - as an interpreter without a file does
    with pytest.raises(InvalidRequestError, match="the text of train is not known"):
        source_of(namespace["train"])  # type: ignore[arg-type]
