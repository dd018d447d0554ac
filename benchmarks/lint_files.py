"""Time of `windlass lint` for one file, and for 1,000 of a folder: manifests, batch scripts and job files."""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES, ROUNDS = 1000, 5
TARGET_ONE_S, TARGET_S = 0.25, 3.0
ROOT = Path(__file__).parent.parent
WINDLASS = str(Path(sys.executable).with_name("windlass"))
FOLDERS = ("examples/broken", "examples/kubernetes", "examples/gpt", "examples/digits", "tests/kubernetes/samples")


def main() -> None:
    report("`windlass lint` of one file", str(ROOT / "examples/kubernetes/pi.yaml"), TARGET_ONE_S)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{FILES} files, {write_files(Path(folder)) >> 10} KiB")
        report(f"`windlass lint` of {FILES:,} files", folder, TARGET_S)


def report(claim: str, path: str, target: float) -> None:
    cpu = cpu_seconds()
    seconds = [timed(path) for _ in range(ROUNDS)]
    print(" ".join(f"{second:.2f}" for second in seconds), "s")
    print(f"CPU time of a run: {(cpu_seconds() - cpu) / ROUNDS:.2f} s")  # what a busy machine does not change
    print(json.dumps({"claim": claim, "measured": statistics.median(seconds), "unit": "s", "target": target}))


def write_files(folder: Path) -> int:
    """Copies the example files in turn, until there are enough; returns their bytes."""
    found = [path for name in FOLDERS for path in sorted((ROOT / name).iterdir())]
    sources = [path for path in found if path.suffix in (".yaml", ".sbatch")]
    for number in range(FILES):
        source = sources[number % len(sources)]
        (folder / f"{number}{source.suffix}").write_bytes(source.read_bytes())
    return sum(path.stat().st_size for path in folder.iterdir())


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(path: str) -> float:
    start = time.perf_counter()
    subprocess.run([WINDLASS, "lint", "-o", "json", path], check=False, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
