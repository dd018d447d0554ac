"""10,000 seeded fault schedules through the real controller, as `make soak` runs: the number without a violation."""

import json
import re
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[1] / "tools/soak.py"
TARGET = 10_000


def main() -> None:
    command = [sys.executable, SOAK, "--schedules", str(TARGET)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    summary = re.search(r"^([\d,]+) schedules, .*: (\d+) with violations$", output, re.MULTILINE)
    if summary is None:
        raise SystemExit(f"tools/soak.py printed no summary: {output[-500:]}")
    print(summary[0])
    passed = int(summary[1].replace(",", "")) - int(summary[2])
    claim = "seeded fault schedules in the simulator without a violation of an invariant"
    print(json.dumps({"claim": claim, "measured": passed, "unit": "schedules", "target": TARGET, "better": "higher"}))


if __name__ == "__main__":
    main()
