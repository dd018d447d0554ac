"""Files of the pages, and the links of the first answer to the modules of its page."""

import gzip
import re

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response

from windlass.server.dashboard.page_files import (
    accepts_gzip,
    asset_response,
    index_page,
    index_response,
    page_response,
)

ANY = Headers({})
CHROMIUM = Headers({"accept-encoding": "gzip, deflate, br, zstd"})


def read(path: str, headers: Headers = ANY) -> Response:
    found = asset_response(path, headers)
    assert found is not None
    return found


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
    assert all(read(name) for name in linked)


def test_a_page_does_not_link_to_modules_of_others() -> None:
    assert "heatmap.js" in preloads("jobs")
    assert "heatmap.js" not in preloads("queue")


@pytest.mark.parametrize("path", ["../app.py", "pages/../../app.py", ".hidden", "pages/", "none.js"])
def test_no_other_file_is_read(path: str) -> None:
    assert asset_response(path, ANY) is None


def test_a_browser_gets_a_file_compressed_and_keeps_it_while_it_is_the_same() -> None:
    plain, compressed = read("app.js"), read("app.js", CHROMIUM)
    assert gzip.decompress(compressed.body) == plain.body
    assert len(compressed.body) < len(plain.body) / 2
    assert (compressed.headers["content-encoding"], compressed.headers["vary"]) == ("gzip", "accept-encoding")
    assert "content-encoding" not in plain.headers
    tag = compressed.headers["etag"]
    again = read("app.js", Headers({**CHROMIUM, "if-none-match": f'W/"other", {tag}'}))
    assert (again.status_code, again.body, again.headers["etag"]) == (304, b"", tag)
    assert read("app.js", Headers({**CHROMIUM, "if-none-match": '"other"'})).status_code == 200
    assert len({tag, plain.headers["etag"], read("app.css", CHROMIUM).headers["etag"]}) == 3


def test_pages_are_compressed_and_not_kept() -> None:
    for page in (index_response("/queue", CHROMIUM), page_response("signin.html", CHROMIUM)):
        assert page.headers["content-type"].startswith("text/html")
        assert b"<title>" in gzip.decompress(page.body)
        assert "etag" not in page.headers


@pytest.mark.parametrize(
    ("accepted", "is_gzip"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=1.0", True),
        ("gzip; q=0", False),
        ("gzip;q=0.000", False),
        ("x-gzip-not, br", False),
    ],
)
def test_gzip_is_sent_to_those_that_read_it(accepted: str, is_gzip: bool) -> None:
    assert accepts_gzip(Headers({"accept-encoding": accepted})) == is_gzip
