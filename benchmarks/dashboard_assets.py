"""Size of all files that the dashboard's pages consist of, as the server sends them: without compression."""

import json
from importlib.resources import files
from pathlib import Path

VENDORED = ("uPlot.iife.min.js", "uPlot.min.css")


def main() -> None:
    own = Path(str(files("windlass.server.dashboard").joinpath("assets")))
    uplot = Path(str(files("windlass.backends.simulator.report").joinpath("vendor", "uplot")))
    sent = [path for path in own.rglob("*") if path.is_file()] + [uplot / name for name in VENDORED]
    size = sum(path.stat().st_size for path in sent) / 1000
    print(f"{len(sent)} files")
    print(
        json.dumps({"claim": "all files of the dashboard, uncompressed", "measured": size, "unit": "kB", "target": 300})
    )


if __name__ == "__main__":
    main()
