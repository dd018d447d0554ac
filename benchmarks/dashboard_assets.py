"""Size of all files of the dashboard's pages, as the server sends them to a browser: compressed by gzip."""

import json
from importlib.resources import files
from pathlib import Path

from starlette.datastructures import Headers

from windlass.server.dashboard.page_files import asset_response

VENDORED = ("uPlot.iife.min.js", "uPlot.min.css")
BROWSER = Headers({"accept-encoding": "gzip"})


def main() -> None:
    own = Path(str(files("windlass.server.dashboard").joinpath("assets")))
    names = [path.relative_to(own).as_posix() for path in own.rglob("*") if path.is_file()]
    sent = [answer for name in (*names, *VENDORED) if (answer := asset_response(name, BROWSER))]
    plain = sum(len(answer.body) for name in (*names, *VENDORED) if (answer := asset_response(name, Headers({}))))
    print(f"{len(sent)} files, {plain / 1000:.0f} kB uncompressed")
    size = sum(len(answer.body) for answer in sent) / 1000
    print(
        json.dumps({"claim": "all files of the dashboard, compressed", "measured": size, "unit": "kB", "target": 300})
    )


if __name__ == "__main__":
    main()
