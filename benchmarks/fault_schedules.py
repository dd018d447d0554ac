"""Ten thousand seeded fault schedules through the real controller: how many end without a violation. As `make soak`."""

import json
import re
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[1] / "tools/soak.py"
TARGET = 10_000


def main() -> None:
    command = [sys.executable, SOAK, "--schedules", str(TARGET)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    summary = re.search(r"^([\d,]+) schedules, .*: (\d+) with violations$", said, re.MULTILINE)
    if summary is None:
        raise SystemExit(f"tools/soak.py said nothing that ends it: {said[-500:]}")
    print(summary[0])
    held = int(summary[1].replace(",", "")) - int(summary[2])
    claim = "seeded fault schedules in the simulator without a violation of an invariant"
    print(json.dumps({"claim": claim, "measured": held, "unit": "schedules", "target": TARGET, "better": "higher"}))


if __name__ == "__main__":
    main()
