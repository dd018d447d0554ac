"""Files of the pages and of the vendored uPlot as responses; `index.html` links to all modules of a page."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response

_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
_UPLOT = "windlass.backends.simulator.report", "vendor", "uplot"
_VENDORED = {"uPlot.iife.min.js", "uPlot.min.css"}
_IMPORT = re.compile(rb'from "(\.[^"]+)"')
_MODULES = {"": "overview", "jobs": "job"}
"""Module of a page by the first part of its path, where it has another name."""


def page_response(name: str) -> Response:
    """A page, which browsers do not keep."""
    return Response(_read_asset(name), media_type="text/html")


def index_response(path: str) -> Response:
    """`index.html` for the path of a page."""
    return Response(index_page(path.split("/")[1]), media_type="text/html")


@cache
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


def asset_response(path: str) -> Response | None:
    """A file that browsers keep and check; None if there is none of this path."""
    content = _read_asset(path)
    if content is None:
        return None
    kind = _TYPES.get(path.rpartition(".")[2], "application/octet-stream")
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})


@cache
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
