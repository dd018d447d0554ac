"""Files of the pages and of the vendored uPlot as responses; `index.html` links to all modules of a page."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from starlette.datastructures import Headers
from starlette.responses import Response

_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
_UPLOT = "windlass.backends.simulator.report", "vendor", "uplot"
_VENDORED = {"uPlot.iife.min.js", "uPlot.min.css"}
_IMPORT = re.compile(rb'from "(\.[^"]+)"')
_MODULES = {"": "overview", "jobs": "job"}
"""Module of a page by the first part of its path, where it has another name."""
_MIN_COMPRESSED_BYTES = 512
_MAX_FILES = 256
"""Number of paths whose files are kept; a client may ask for any path."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file with its hash, plain and compressed; `compressed` is None where that is not worth it."""

    media_type: str
    etag: str
    plain: bytes
    compressed: bytes | None

    def response(self, headers: Headers, *, is_kept: bool) -> Response:
        """The answer to a request with these headers. `is_kept`: browsers keep the file and check it by its hash."""
        encoding, body = "", self.plain
        if self.compressed is not None and accepts_gzip(headers):
            encoding, body = "gzip", self.compressed
        about = {"vary": "accept-encoding", **({"content-encoding": encoding} if encoding else {})}
        if is_kept:
            tag = f'"{self.etag}{encoding}"'
            about |= {"cache-control": "no-cache", "etag": tag}
            if tag in headers.get("if-none-match", ""):
                return Response(status_code=304, headers=about)
        return Response(body, media_type=self.media_type, headers=about)


def accepts_gzip(headers: Headers) -> bool:
    """Whether the sender of a request reads gzip."""
    for part in headers.get("accept-encoding", "").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


def page_response(name: str, headers: Headers) -> Response:
    """A page, which browsers do not keep."""
    found = _find_file(name)
    assert found is not None  # noqa: S101 - a file of ours
    return found.response(headers, is_kept=False)


def index_response(path: str, headers: Headers) -> Response:
    """`index.html` for the path of a page."""
    return _index_file(path.split("/")[1]).response(headers, is_kept=False)


@cache
def _index_file(first_part: str) -> StaticFile:
    return _make_file(index_page(first_part), "html")


def index_page(first_part: str) -> bytes:
    """`index.html` for the page with this first part of its path, which must be the path of a page.

    It links to all modules of the page: the browser requests them at once, and not each when it has read the one that
    imports it.
    """
    page = f"pages/{_MODULES.get(first_part, first_part)}.js"
    links = [f'<link rel="modulepreload" href="/assets/{name}">' for name in _modules("app.js", page)]
    content = _read_asset("index.html") or b""
    return content.replace(b"</head>", "\n".join([*links, "</head>"]).encode())


def _modules(*first: str) -> list[str]:
    """These modules and all that they import, each once."""
    found = list(first)
    for name in found:  # grows meanwhile
        for path in _IMPORT.findall(_read_asset(name) or b""):
            imported = posixpath.normpath(posixpath.join(posixpath.dirname(name), path.decode()))
            if imported not in found:
                found.append(imported)
    return found


def asset_response(path: str, headers: Headers) -> Response | None:
    """A file that browsers keep and check; None if there is none of this path."""
    found = _find_file(path)
    return None if found is None else found.response(headers, is_kept=True)


@lru_cache(_MAX_FILES)
def _find_file(path: str) -> StaticFile | None:
    content = _read_asset(path)
    return None if content is None else _make_file(content, path.rpartition(".")[2])


def _make_file(content: bytes, kind: str) -> StaticFile:
    compressed = gzip.compress(content, 9, mtime=0) if len(content) >= _MIN_COMPRESSED_BYTES else None
    media_type = _TYPES.get(kind, "application/octet-stream")
    return StaticFile(media_type, hashlib.sha256(content).hexdigest(), content, compressed)


def _read_asset(path: str) -> bytes | None:
    """A file of the pages or of uPlot; None for any other path."""
    if path in _VENDORED:
        package, *folders = _UPLOT
        return files(package).joinpath(*folders, path).read_bytes()
    parts = path.split("/")
    if any(
        not part.replace("-", "").replace("_", "").replace(".", "").isalnum() or part.startswith(".") for part in parts
    ):
        return None
    found = files("windlass.server.dashboard").joinpath("assets", *parts)
    return found.read_bytes() if found.is_file() else None
