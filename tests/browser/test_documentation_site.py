"""The site that `make docs` writes: its search and its versions, in a browser, with few pages of its own."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import build_docs
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(find_spec("sphinx") is None, reason="Sphinx is not installed: make docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working tree with the page of a topic that its release v0.2 lacks, and a pre-release."""
    root = tmp_path_factory.mktemp("documented")
    for folder in ("_static", "_templates"):
        shutil.copytree(ROOT / "docs" / folder, root / "docs" / folder)
    shutil.copy(ROOT / "docs/conf.py", root / "docs")
    package = root / "src/windlass"
    (package / "server/dashboard/assets").mkdir(parents=True)
    shutil.copy(ROOT / "src/windlass/server/dashboard/assets/icon.svg", package / "server/dashboard/assets")
    write_version(root, "0.2", "Gangs wait in queues.")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "release"], ["tag", "v0.2"], ["tag", "v0.3rc1"]):
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *author, *words], cwd=root, check=True)
    write_version(root, "0.3", "Gangs wait in queues. A starvation guard bounds the wait.")
    build_docs.main(root / "site", root)
    return root / "site"


def write_version(root: Path, version: str, text: str) -> None:
    (root / "src/windlass/__init__.py").write_text(f'__version__ = "{version}"\n')
    (root / "docs/guides").mkdir(exist_ok=True)
    (root / "docs/index.md").write_text("# Start\n\n```{toctree}\nguides/queues\n```\n")
    (root / "docs/guides/queues.md").write_text(f"# Queues\n\n{text}\n")


def test_the_search_finds_a_page_by_a_word_of_its_text(site: Path, browser: Any):
    page = browser.new_page()
    page.goto(f"file://{site}/search.html?q=starvation")
    page.wait_for_selector("#search-results li a")
    assert page.locator("#search-results li a").first.inner_text() == "Queues"
    page.goto(f"file://{site}/v0.2/search.html?q=starvation")
    page.wait_for_selector("#search-results p")
    assert page.locator("#search-results li").count() == 0
    page.close()


def test_each_page_links_every_version(site: Path, browser: Any):
    page = browser.new_page()
    page.goto(f"file://{site}/guides/queues.html")
    assert page.locator(".sidebar-tree a.reference", has_text="v0.").all_inner_texts() == ["v0.2"]
    page.locator("a.reference", has_text="v0.2").click()
    assert page.title().endswith("Windlass 0.2")
    page.goto(f"file://{site}/v0.2/guides/queues.html")
    page.locator("a.reference", has_text="latest").click()
    assert page.url == f"file://{site}/index.html"
    page.close()
