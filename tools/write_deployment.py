"""Writes the files of `deploy/` from `src/windlass/deploy`, and removes files that it no longer generates."""

from __future__ import annotations

from pathlib import Path

from windlass.deploy.files import GENERATED, files, write_files

FOLDER = Path(__file__).parent.parent / "deploy"


def main() -> None:
    wanted = files()
    for folder in GENERATED:
        for path in (FOLDER / folder).rglob("*.*"):
            if str(path.relative_to(FOLDER)) not in wanted:
                path.unlink()
    write_files(FOLDER, wanted)


if __name__ == "__main__":
    main()
