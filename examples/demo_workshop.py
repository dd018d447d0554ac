"""The demo of the workshop: three labs played unattended, each from a clean start to its acceptance.

`make demo-workshop` runs it, on this machine alone. Other labs are arguments: `demo_workshop.py c1 g1`; where one of
them needs the cluster of the workshop, that is started first. Everything is in a temporary folder, which is removed at
the end. The exit code is 0 only if each check refuses the lab before its solution, and accepts it afterwards.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from narration import DemoFailedError, expect, explain
from windlass.controlplane.build import BuildError
from windlass.controlplane.cluster_folder import ClusterError
from windlass.labs.check_result import CheckResult, check_lab
from windlass.labs.errors import LabError
from windlass.labs.lab_catalog import find_lab
from windlass.labs.lab_cluster import cluster_down, cluster_up
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_reset import reset_lab
from windlass.labs.lab_script import run_script
from windlass.labs.lab_solution import SOLVE
from windlass.labs.lab_start import start_lab

LABS = ("g1", "c1", "b3")
"""A lab about manifests, one that trains, one about the host."""


def main(names: list[str]) -> int:
    began = time.monotonic()
    os.environ.pop("KUBECONFIG", None)
    folders = LabFolders(Path(tempfile.mkdtemp(prefix="windlass-workshop-")))
    try:
        labs = [find_lab(name) for name in names or LABS]
        if any(lab.needs_cluster for lab in labs):
            start_cluster(folders)
        for number, lab in enumerate(labs, 1):
            play(number, lab, folders)
    except (DemoFailedError, LabError, ClusterError, BuildError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    finally:
        cluster_down(folders.cluster)
        shutil.rmtree(folders.root)
    explain(f"Accepted {', '.join(lab.facts.id for lab in labs)} after {time.monotonic() - began:.0f} seconds.")
    print("Play them yourself: .venv/bin/windlass lab list, and docs/guides/workshop.md")
    return 0


def start_cluster(folders: LabFolders) -> None:
    explain("The cluster of the workshop: windlass lab cluster up")
    cluster_up(folders.cluster, lambda line: print(f"  … {line}", flush=True))


def play(number: int, lab: LabDescription, folders: LabFolders) -> None:
    """Start a lab, see it refused, play its solution, see it accepted, and reset it."""
    facts = lab.facts
    explain(f"{number}. {facts.id.upper()}: {facts.title}. {facts.goal}")
    print(f"$ windlass lab start {facts.id}", flush=True)
    start_lab(lab, folders, print)
    expect(not shown_check(lab, folders).accepted, f"{facts.id} is accepted before its solution")
    print(f"$ sh -eu {SOLVE}", flush=True)
    print(run_script(lab.folder / "solution" / SOLVE, lab, folders), end="", flush=True)
    result = shown_check(lab, folders)
    expect(result.accepted, f"{facts.id} is not accepted after its solution: {result.refusal}")
    print(f"$ windlass lab reset {facts.id}", flush=True)
    reset_lab(lab, folders, print)


def shown_check(lab: LabDescription, folders: LabFolders) -> CheckResult:
    """Print the first finding that is not met, or that the lab is accepted."""
    print(f"$ windlass lab check {lab.facts.id}", flush=True)
    result = check_lab(lab, folders)
    refusal = result.refusal
    print(
        f"  no  {refusal.what}\n      next: {refusal.fix}" if refusal else f"  {lab.facts.id} is accepted", flush=True
    )
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
