"""The files by which a notebook's server and the command line agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windlass.jupyter.first_notebook import NAME, write_first_notebook
from windlass.jupyter.folder import (
    NotebookFolder,
    ServerAddress,
    new_token,
    page_of,
    read_address,
    read_token,
    write_address,
    write_redirect,
)


@pytest.fixture
def folder(tmp_path: Path) -> NotebookFolder:
    found = NotebookFolder(tmp_path / "notebook")
    found.prepare()
    return found


def test_only_the_owner_may_read_the_token(folder: NotebookFolder):
    token = new_token(folder)
    assert read_token(folder.token) == token != new_token(folder)
    assert (folder.path.stat().st_mode & 0o777, folder.token.stat().st_mode & 0o777) == (0o700, 0o600)


def test_the_page_that_a_browser_opens_first_is_private(folder: NotebookFolder):
    write_redirect(folder.path / "open.html", page_of(8888, "secret"))
    assert "http://127.0.0.1:8888/?token=secret" in (folder.path / "open.html").read_text()
    assert (folder.path / "open.html").stat().st_mode & 0o777 == 0o600


def test_the_page_that_a_browser_opens_first_holds_no_markup_of_a_token(folder: NotebookFolder):
    write_redirect(folder.path / "open.html", page_of(8888, '"><script>alert(1)</script>'))
    assert "<script>" not in (folder.path / "open.html").read_text()


def test_an_address_is_read_as_written(folder: NotebookFolder):
    assert read_address(folder) is None
    write_address(folder, ServerAddress("notebook-1", 2, 8888))
    assert read_address(folder) == ServerAddress("notebook-1", 2, 8888)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"job": 1, "port": 2}', '{"job": "a", "attempt": 1, "port": 70000}', "\x00" * 9000]
)
def test_any_other_content_is_no_address(folder: NotebookFolder, content: str):
    folder.address.write_text(content)
    assert read_address(folder) is None


def test_a_first_notebook_is_written_into_an_empty_workspace_alone(folder: NotebookFolder):
    write_first_notebook(folder.workspace)
    notebook = json.loads((folder.workspace / NAME).read_text())
    assert "check_machine" in "".join(notebook["cells"][1]["source"])
    (folder.workspace / NAME).rename(folder.workspace / "own.ipynb")
    write_first_notebook(folder.workspace)
    assert [each.name for each in folder.workspace.iterdir()] == ["own.ipynb"]
