"""Records what Kubeflow's operators do with each case of `tests/kubernetes/kubeflow_operators/cases.py`.

    git clone --depth 1 --branch v1.9.0 https://github.com/kubeflow/training-operator
    git clone --depth 1 --branch v0.8.2 https://github.com/kubeflow/mpi-operator
    (cd training-operator && go build -o operator ./cmd/training-operator.v1)
    (cd mpi-operator && go build -o operator ./cmd/mpi-operator)
    unshare --mount tests/kubernetes/kubeflow_operators/record.py --training-operator training-operator
    tests/kubernetes/kubeflow_operators/record.py --mpi-operator mpi-operator

With `--new` only the cases that have no recording yet are played, and the recordings of the others stay.

The first needs root: training-operator's webhooks are called by the name of their Service, which is made known to this
process and its children in a mount namespace of their own. The recordings are written to the folder `recorded`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml

from kubeflow_operators.cases import cases
from kubeflow_operators.kinds import KINDS, V2, Case
from kubeflow_operators.play import play
from kubeflow_operators.recordings import FOLDER, RECORDED
from windlass.controlplane import cluster
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane, Settings
from windlass.controlplane.processes import Server

CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
SERVICE = "training-operator.kubeflow.svc"
SECRET = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert"  # noqa: S105 - a path
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
AT_ONCE = 4
"""The operators send 20 and 5 requests a second by default; more cases at once would settle too late."""
QUIET_S, MPI_QUIET_S = 3.0, 15.0
"""mpi-operator doubles its delay with each event of a job until it has looked at the job."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training-operator", type=Path, help="its folder, with `operator` built in it")
    parser.add_argument("--mpi-operator", type=Path, help="its folder, with `operator` built in it")
    parser.add_argument("--only", default="", help="only cases whose name contains this; printed instead of written")
    parser.add_argument("--new", action="store_true", help="only cases without a recording; added to the others")
    options = parser.parse_args()
    wanted = [each for each in cases() if options.only in each.namespace and not (options.new and is_recorded(each))]
    if options.training_operator:
        known = [each for each in wanted if each.kind is not V2]
        asyncio.run(record(options.training_operator, known, print_only=bool(options.only)))
    if options.mpi_operator:
        known = [each for each in wanted if each.kind is V2]
        asyncio.run(record(options.mpi_operator, known, print_only=bool(options.only)))
    return 0


async def record(source: Path, wanted: list[Case], *, print_only: bool) -> None:
    """Plays the cases beside an operator, and writes what was seen by kind."""
    is_mpi = (source / "cmd/mpi-operator").exists()
    start = mpi_operator if is_mpi else training_operator
    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        settings = Settings(controllers=True, node_grace=600, eviction_after=300)
        plane = await asyncio.to_thread(cluster.start, Path(folder) / "plane", settings)
        try:
            async with plane.api() as api, start(api, plane, source, Path(folder) / "operator.log"):
                seen = {}
                kinds = tuple(kind for kind in KINDS if (kind is V2) == is_mpi)
                quiet = MPI_QUIET_S if is_mpi else QUIET_S
                async for case, found in play(api, wanted, kinds=kinds, quiet=quiet, at_once=AT_ONCE):
                    seen[case.namespace] = found
                    print(f"{len(seen)} of {len(wanted)}: {case.namespace}", file=sys.stderr)  # noqa: T201 - progress
            json.dump(seen, sys.stdout, indent=1) if print_only else write(seen, wanted)
        finally:
            plane.close()


def is_recorded(case: Case) -> bool:
    return case.name in RECORDED[case.kind.label]


def write(seen: Mapping[str, object], wanted: Sequence[Case]) -> None:
    """Writes what was seen, a file for each kind and a line for each case. Cases that were not played stay."""
    for kind in [each for each in KINDS if any(case.kind is each for case in wanted)]:
        kept = {each.name for each in cases((kind,))}
        own: dict[str, object] = {name: each for name, each in RECORDED[kind.label].items() if name in kept}
        own |= {each.name: seen[each.namespace] for each in wanted if each.kind is kind}
        lines = [f" {json.dumps(name)}: {json.dumps(own[name], sort_keys=True)}" for name in sorted(own)]
        (FOLDER / f"{kind.label}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


@asynccontextmanager
async def training_operator(api: Api, plane: ControlPlane, source: Path, log: Path) -> AsyncIterator[None]:
    hosts = log.parent / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + f"127.0.0.1 {SERVICE}\n")  # noqa: ASYNC240 - nothing else runs
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)  # noqa: ASYNC221 - nothing else runs
    for file in sorted((source / "manifests/base/crds").glob("kubeflow*.yaml")):
        await define(api, yaml.safe_load(file.read_text()))
    await api.post("/api/v1/namespaces", {"metadata": {"name": "kubeflow"}})
    await api.post(SECRET.rpartition("/")[0], {"metadata": {"name": SECRET.rpartition("/")[2]}})
    hooks = next(yaml.safe_load_all((source / "manifests/base/webhook/manifests.yaml").read_text()))
    hooks["metadata"]["name"] = "validator.training-operator.kubeflow.org"
    for hook in hooks["webhooks"]:
        path = hook["clientConfig"].pop("service")["path"]
        hook["clientConfig"]["url"] = f"https://{SERVICE}:9443{path}"
    await api.post(WEBHOOKS, hooks)
    with running(source, plane, log):
        await certificates(api)
        async with asyncio.timeout(120):
            while log.read_text().count("Starting workers") < len(KINDS) - 1:  # noqa: ASYNC110, ASYNC240 - polled
                await asyncio.sleep(0.2)
        yield


async def certificates(api: Api) -> None:
    """Puts the certificates that the operator makes where it reads them, as the mount of its Secret does."""
    async with asyncio.timeout(120):
        while not (data := (await api.get(SECRET)).get("data")):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.2)
    CERTIFICATES.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing else runs
    for name, value in data.items():
        (CERTIFICATES / name).write_bytes(base64.b64decode(value))


@asynccontextmanager
async def mpi_operator(api: Api, plane: ControlPlane, source: Path, log: Path) -> AsyncIterator[None]:
    await define(api, yaml.safe_load((source / "manifests/base/kubeflow.org_mpijobs.yaml").read_text()))
    await api.post("/api/v1/namespaces", {"metadata": {"name": "mpi-operator"}})
    flags = ["--kube-api-qps", "200", "--kube-api-burst", "400"]
    with running(source, plane, log, f"--kubeConfig={plane.kubeconfig}", *flags):
        async with asyncio.timeout(120):
            while "Starting workers" not in log.read_text():  # noqa: ASYNC110, ASYNC240 - polled
                await asyncio.sleep(0.2)
        yield


@contextmanager
def running(source: Path, plane: ControlPlane, log: Path, *flags: str) -> Iterator[None]:
    """Runs an operator's process until the end of the block."""
    os.environ["KUBECONFIG"] = str(plane.kubeconfig)
    server = Server("operator", [source / "operator", *flags], log)
    server.start()
    try:
        yield
    except BaseException:
        sys.stderr.write(log.read_text()[-2000:])
        raise
    finally:
        server.stop()


async def define(api: Api, definition: dict[str, object]) -> None:
    """Creates a kind, and waits until it is served."""
    await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    spec = definition["spec"]
    assert isinstance(spec, dict)
    version = next(each["name"] for each in spec["versions"] if each["served"])
    await api.until_found(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")


if __name__ == "__main__":
    sys.exit(main())
