"""Time of `windlass lint` for 1,000 files of a folder: manifests of several kinds, batch scripts and job files."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, ROUNDS, TARGET_S = 1000, 3, 3.0
ROOT = Path(__file__).parent.parent
WINDLASS = str(Path(sys.executable).with_name("windlass"))
FOLDERS = ("examples/broken", "examples/kubernetes", "examples/gpt", "examples/digits", "tests/kubernetes/samples")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        size = write_files(Path(folder))
        seconds = [timed(folder) for _ in range(ROUNDS)]
    print(f"{FILES} files, {size >> 10} KiB: {' '.join(f'{second:.2f}' for second in seconds)} s")
    claim = f"`windlass lint` of {FILES:,} files"
    print(json.dumps({"claim": claim, "measured": statistics.median(seconds), "unit": "s", "target": TARGET_S}))


def write_files(folder: Path) -> int:
    """Copies the example files in turn, until there are enough; returns their bytes."""
    found = [path for name in FOLDERS for path in sorted((ROOT / name).iterdir())]
    sources = [path for path in found if path.suffix in (".yaml", ".sbatch")]
    for number in range(FILES):
        source = sources[number % len(sources)]
        (folder / f"{number}{source.suffix}").write_bytes(source.read_bytes())
    return sum(path.stat().st_size for path in folder.iterdir())


def timed(folder: str) -> float:
    start = time.perf_counter()
    subprocess.run([WINDLASS, "lint", "-o", "json", folder], check=False, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
