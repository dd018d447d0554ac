"""Files of the pages and of the vendored uPlot as responses."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.responses import Response

_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
_UPLOT = "windlass.backends.simulator.report", "vendor", "uplot"
_VENDORED = {"uPlot.iife.min.js", "uPlot.min.css"}


def page_response(name: str) -> Response:
    """A page, which browsers do not keep."""
    return Response(_read_asset(name), media_type="text/html")


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
