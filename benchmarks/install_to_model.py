"""Time from `uv pip install` of the wheel to a trained model, for a user whose packages are already downloaded.

A new virtual environment gets the wheel with its extra `train` and the digits' data, at the versions of the lock, then
trains `examples/digits` on two ranks. A first, unmeasured installation fills the cache; the measured ones are offline.
uv links files from its cache where that is on the same disk.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
RUNS = 3


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel = build_wheel(folder / "dist")
        shutil.copytree(ROOT / "examples/digits", folder / "digits")
        (folder / "pins.txt").write_text("\n".join(pins()))
        install(folder, wheel, UV_OFFLINE="0")
        times = [measure(folder, wheel) for _ in range(RUNS)]
    total = median(installed + trained for installed, trained in times)
    claim = "from uv pip install of the wheel to a trained model, warm cache"
    print(json.dumps({"claim": claim, "measured": round(total, 1), "unit": "s", "target": 60.0}))


def build_wheel(out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-d", out, "-t", "wheel"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = out.glob("*.whl")
    return wheel


def pins() -> list[str]:
    return re.findall(r"^[a-z0-9.-]+==[^\s\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def measure(folder: Path, wheel: Path) -> tuple[float, float]:
    """Installs into a new environment and trains. Returns the seconds of both."""
    spent, began = cpu_seconds(), time.monotonic()
    install(folder, wheel, UV_OFFLINE="1")
    installed = time.monotonic()
    train(folder)
    trained = time.monotonic()
    print(
        f"installed in {installed - began:.1f} s, trained in {trained - installed:.1f} s; "
        f"{cpu_seconds() - spent:.1f} s of CPU time, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    return installed - began, trained - installed


def cpu_seconds() -> float:
    """CPU time of all ended processes that this one has started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def install(folder: Path, wheel: Path, **env: str) -> None:
    shutil.rmtree(folder / "venv", ignore_errors=True)
    uv = {**os.environ, "UV_NO_CONFIG": "1", "UV_SYSTEM_CERTS": "1", **env}
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder / "venv"], env=uv, check=True)
    command = [UV, "pip", "install", "--quiet", "--python", folder / "venv/bin/python", "-c", folder / "pins.txt"]
    subprocess.run([*command, f"{wheel}[train,examples]"], env=uv, check=True)


def train(folder: Path) -> None:
    """Trains as the README's first example does, in the environment alone. Checks the accuracy."""
    path = f"{folder}/venv/bin{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(folder / "state")}
    job = ["windlass", "run", "-N", "2", "-G", "1", "--local-gpus", "2", "--", "python", "digits/train.py"]
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    ran = subprocess.run(job, env=env, cwd=folder, capture_output=True, text=True, check=True)
    [accuracy] = re.findall(r"test accuracy (\d\.\d+)", ran.stdout)
    assert float(accuracy) > 0.95, ran.stdout[-2000:]


if __name__ == "__main__":
    main()
