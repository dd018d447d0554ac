import re
from pathlib import Path

import pytest

from windlass.cli.verb_table import VERBS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s]+)(#[^)]*)?\)")
GENERATED = {"docs/reference/cli.md", "docs/guides/workshop-labs.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_resolve(page):
    links = [link for link, _ in LINK.findall(page.read_text()) if not link.startswith("http")]
    places = [(page.parent / link).resolve() for link in links]
    dead = [p for p in places if not p.exists() and str(p.relative_to(ROOT)) not in GENERATED]
    assert not dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_exist(page):
    named = re.findall(r"`((?:examples|docs|benchmarks|tools|tests)/[\w./-]+)`", page.read_text())
    assert not [name for name in named if not (ROOT / name).exists() and name not in GENERATED]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_pages_name_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)\b(?=[`\n ])", "\n".join([*code(page), ""]))) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_verbs_that_pages_name_exist(page):
    typed = re.findall(r"(?:^|\$ |&& |; do )windlass ([a-z]+)\b", "\n".join(code(page)), re.MULTILINE)
    assert set(typed) - {"is"} <= VERBS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_names_that_pages_cite_exist(page):
    cited = {name for text in code(page) for name in re.findall(r"^windlass(?:\.\w+)+|^(?:core|wire)(?:\.\w+)+", text)}
    assert not [name for name in cited - {"windlass.dev", "windlass.yaml", "wire.py"} if not exists(name)]


def exists(name):
    """Whether a dotted name is a module below src/, or names in the text of one."""
    parts = name.removeprefix("windlass.").split(".")
    for count in range(len(parts), -1, -1):
        path = (ROOT / "src/windlass").joinpath(*parts[:count])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module.exists():
            return all(re.search(rf"\b{part}\b", module.read_text()) for part in parts[count:])
    return False


READERS = "users|readers|people|developers|engineers|authors|administrators|operators|programs|scripts|everyone"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_its_readers_at_its_beginning(page):
    paragraphs = page.read_text().split("\n## ")[0]
    assert re.search(rf"\bfor (all |those |anyone )?({READERS})\b", paragraphs, re.IGNORECASE)


def test_the_readme_opens_with_the_two_commands():
    commands = [line for block in code(ROOT / "README.md") for line in block.splitlines()]
    assert [line.split("#")[0].split() for line in commands[:2]] == [["make", "demo"], ["make", "test"]]


def test_the_manifest_in_the_readme_is_the_one_that_the_demo_applies():
    [shown] = re.findall(
        r"^```yaml\n(apiVersion: kubeflow.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert shown in (ROOT / "examples/kubernetes/digits.yaml").read_text()
    assert "kubectl apply -f examples/kubernetes/digits.yaml" in (ROOT / "examples/demo_kubernetes.py").read_text()


def code(page):
    """Fenced blocks and inline code of a page."""
    text = page.read_text()
    return re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
