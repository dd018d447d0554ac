"""Files of the pages, and the links of the first answer to the modules of its page."""

import re

import pytest

from windlass.server.dashboard.page_files import asset_response, index_page


def preloads(page: str) -> list[str]:
    return re.findall(r'rel="modulepreload" href="/assets/([^"]+)"', index_page(page).decode())


@pytest.mark.parametrize(
    ("part", "module"), [("", "pages/overview.js"), ("jobs", "pages/job.js"), ("queue", "pages/queue.js")]
)
def test_a_page_links_to_each_module_that_it_imports_once(part: str, module: str) -> None:
    linked = preloads(part)
    assert linked[:2] == ["app.js", module]
    assert {"client.js", "dom.js", "table.js"} < set(linked)
    assert len(linked) == len(set(linked))
    assert all(asset_response(name) for name in linked)


def test_a_page_does_not_link_to_modules_of_others() -> None:
    assert "heatmap.js" in preloads("jobs")
    assert "heatmap.js" not in preloads("queue")


@pytest.mark.parametrize("path", ["../app.py", "pages/../../app.py", ".hidden", "pages/", "none.js"])
def test_no_other_file_is_read(path: str) -> None:
    assert asset_response(path) is None
