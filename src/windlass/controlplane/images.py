"""The image of the real nodes, composed on this machine: a root file system without programs.

Its `usr` is this machine's, mounted read-only into every container by the runtime (`HOST`), and so are the Python that
runs this module, its packages and the folder of this package, at their own paths; of a clone, all of it. So `python`,
`torchrun`, `mpirun` and `sshd` are there in every image, whatever its name, and manifests made for other images run
unchanged. Only the operator's image starts something by itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

SOURCE = Path(__file__).resolve().parents[2]
"""The folder with the package: `src` of a clone, or the packages of an environment."""
CLONE = SOURCE.parent if (SOURCE.parent / "pyproject.toml").exists() else SOURCE
"""The whole clone with its examples; of an installed package, only its folder."""
HOST = sorted({Path("/usr"), CLONE, Path(sys.prefix), Path(sys.base_prefix).resolve()})
"""Folders of this machine that are mounted into every container."""
_AT = Path("/opt/windlass")
ALSO = {_AT / "source": SOURCE, _AT / "venv": Path(sys.prefix)}
"""Second mounts that no volume covers: for pods that mount a /tmp when the package is below /tmp."""
IMAGE = "localhost/windlass-node:1"
OPERATOR = "localhost/windlass-operator:1"
_CODE = "import sys; from windlass.cli.entry import main; sys.exit(main())"
_WINDLASS = (str(Path(sys.executable).resolve()), "-c", _CODE)
_PACKAGES = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
ENTRYPOINTS: Mapping[str, Sequence[str]] = {IMAGE: (), OPERATOR: _WINDLASS}
"""Images, with the entrypoint that precedes a container's arguments."""
_OWN = "opt/bin"
"""Programs of the image itself."""
PATH = f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/{_OWN}"
_FOLDERS = ("dev", "etc/ssh", "proc", "root", "run/sshd", "sys", "tmp", "var/tmp", "var/log", "mnt", "home", _OWN)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "../run"}
_COPIED = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "openmpi", "ssl/certs", "ca-certificates.conf")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    "mpiuser:x:1000:1000::/home/mpiuser:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nmpiuser:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    # as in mpi-operator's images: keys come from a secret, hosts change
    "etc/ssh/sshd_config": "UsePAM no\nStrictModes no\nPermitRootLogin yes\nHostKey /etc/ssh/ssh_host_ed25519_key\n",
    "etc/ssh/ssh_config": "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
}
_PROGRAMS = {
    # workers wait for their master with it; not every machine has it
    "nslookup": '#!/bin/sh\nexec getent ahostsv4 "$1"\n',
}


def compose(file: Path, name: str) -> None:
    """Writes an OCI archive of one layer, for import under `name`, one of ENTRYPOINTS."""
    layer = _layer()
    config = _json(
        {
            "architecture": "arm64" if platform.machine() == "aarch64" else "amd64",
            "os": "linux",
            "config": {**_started(name), "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    oci = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{oci}.manifest.v1+json",
            "config": _described(config, f"{oci}.config.v1+json"),
            "layers": [_described(layer, f"{oci}.layer.v1.tar")],
        }
    )
    named = {**_described(manifest, f"{oci}.manifest.v1+json"), "annotations": {"io.containerd.image.name": name}}
    index = _json({"schemaVersion": 2, "mediaType": f"{oci}.index.v1+json", "manifests": [named]})
    with tarfile.open(file, "w") as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", index)
        for blob in (layer, config, manifest):
            _add(archive, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)


def _started(name: str) -> Mapping[str, Sequence[str]]:
    path = f"PATH={PATH}"
    if not (entrypoint := ENTRYPOINTS[name]):
        return {"Env": [path], "Cmd": ["/usr/bin/sleep", "infinity"]}
    packages = f"PYTHONPATH={_AT}/venv/{_PACKAGES}:{_AT}/source"
    return {"Env": [path, packages], "Entrypoint": entrypoint}


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in _FOLDERS:
            _entry(layer, folder, tarfile.DIRTYPE, 0o1777 if folder.endswith("tmp") else 0o755)
        for link, target in _LINKS.items():
            _entry(layer, link, tarfile.SYMTYPE, 0o777, target)
        for path, text in _FILES.items():
            _add(layer, path, text.encode())
        for program, text in _PROGRAMS.items():
            _add(layer, f"{_OWN}/{program}", text.encode(), 0o755)
        _add(layer, "etc/ssh/ssh_host_ed25519_key", _host_key(), 0o600)
        for file in _pause():
            _add(layer, f"usr{str(file).removeprefix('/usr')}".lstrip("/"), file.read_bytes(), 0o755)
        for path in _COPIED:
            if (source := Path("/etc") / path).exists():
                layer.add(source, f"etc/{path}")
    return buffer.getvalue()


def _pause() -> Sequence[Path]:
    """Returns the files of the pause container, which gets no mounts: `sleep` and its libraries."""
    output = subprocess.run(["ldd", "/usr/bin/sleep"], check=True, capture_output=True, text=True).stdout
    return [Path("/usr/bin/sleep"), *(Path(word) for word in output.split() if word.startswith("/"))]


def _host_key() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _entry(archive: tarfile.TarFile, path: str, kind: bytes, mode: int, target: str = "") -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.linkname = kind, mode, target
    archive.addfile(entry)


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _described(blob: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode()
