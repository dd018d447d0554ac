"""The wheel and the sdist: equal bytes from equal sources, nothing missing, nothing of the tests, and usable alone."""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from windlass.cli.verb_table import VERBS

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"
UVX = Path(sys.executable).with_name("uvx")


def build(sources, out):
    """Builds both files of a source tree with the build backend of this environment."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    pages = [sys.executable, ROOT / "tools/write_man_pages.py", sources / "build/man"]
    subprocess.run(pages, env=env, check=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", out, "-t", "sdist", "-t", "wheel"]
    subprocess.run(command, env=env, cwd=sources, capture_output=True, check=True)
    return {file.suffix: file for file in Path(out).iterdir()}


def copy_of_sources(folder):
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return copy_of_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def built(sources, tmp_path_factory):
    return build(sources, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked(built, tmp_path_factory):
    """The packages of the wheel in a folder, as an installation has them."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(built[".whl"]).extractall(folder)  # noqa: S202 - a wheel that this module has built
    return folder


def test_the_distribution_has_a_name_of_its_own(built):
    assert {file.name.partition("-")[0] for file in built.values()} == {"windlass_train"}


def test_a_second_build_of_other_files_with_other_times_gives_equal_bytes(built, tmp_path):
    again = build(copy_of_sources(tmp_path / "sources_elsewhere"), tmp_path / "dist")
    assert {suffix: file.read_bytes() for suffix, file in again.items()} == {
        suffix: file.read_bytes() for suffix, file in built.items()
    }


def test_the_wheel_of_the_unpacked_sdist_is_the_same(built, tmp_path):
    with tarfile.open(built[".gz"]) as archive:
        archive.extractall(tmp_path, filter="data")
    [sources] = tmp_path.iterdir()
    assert build(sources, tmp_path / "dist")[".whl"].read_bytes() == built[".whl"].read_bytes()


def test_the_wheel_has_every_file_of_the_package_a_man_page_per_verb_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[".whl"]).namelist())
    package = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    pages = {name for name in names if "/share/man/man1/" in name}
    assert {name for name in names if name.startswith("windlass/")} == {
        name for name in package if "__pycache__" not in name
    }
    assert {name.rpartition("/")[2] for name in pages} == {"windlass.1", *(f"windlass-{verb}.1" for verb in VERBS)}
    metadata = {name for name in names - pages if not name.startswith("windlass/")}
    assert {name.partition("/")[2] for name in metadata} == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip


def test_the_sdist_has_what_the_wheel_is_built_of_and_no_tests(built):
    with tarfile.open(built[".gz"]) as archive:
        members = archive.getmembers()
    top = {member.name.split("/")[1] for member in members}
    assert top <= {"src", "build", "tools", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert not [member.name for member in members if re.search(r"/tests?/|__pycache__|\.pyc$", member.name)]
    assert {member.mtime for member in members} == {int(EPOCH)}


def test_the_command_has_a_second_name_for_uvx(built):
    wheel = zipfile.ZipFile(built[".whl"])
    [names] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    scripts = re.findall(r"^([a-z-]+) = windlass\.cli:main$", wheel.read(names).decode(), re.MULTILINE)
    assert scripts == ["windlass", "windlass-train"]


def test_the_record_of_the_wheel_lists_every_file(built):
    wheel = zipfile.ZipFile(built[".whl"])
    [record] = [name for name in wheel.namelist() if name.endswith("/RECORD")]
    listed = {row[0] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
    assert listed == set(wheel.namelist())


def run_installed(folder, *words, **env):
    """Runs the console script of an installation in a folder, outside of the repository."""
    script = "import sys; from windlass.cli import main; sys.exit(main())"
    found = {**os.environ, "PYTHONPATH": str(folder), "XDG_STATE_HOME": str(folder / "state"), **env}
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, env=found, cwd=folder, capture_output=True, text=True, check=False)


def test_verbs_that_read_files_of_the_package_work_from_the_wheel(unpacked):
    assert f"installed: {unpacked}" in run_installed(unpacked, "version", "-o", "wide").stdout
    for words in (["explain", "nodes"], ["schema"], ["operator", "install", "--render"], ["doctor", "--help"]):
        ran = run_installed(unpacked, *words)
        assert (ran.returncode, ran.stderr) == (0, ""), words
    (unpacked / "job.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert "memory" in run_installed(unpacked, "doctor", "job.log").stdout


def test_uvx_runs_a_job_from_the_wheel_alone(built, tmp_path):
    pins = re.findall(r"^[a-z0-9.-]+==[^\s\\]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "UV_SYSTEM_CERTS": "1"}
    env.pop("PYTHONPATH", None)
    job = [
        "windlass",
        "run",
        "-N",
        "2",
        "-G",
        "1",
        "--local-gpus",
        "2",
        "--",
        "sh",
        "-c",
        "echo rank $RANK of $WORLD_SIZE",
    ]
    command = [UVX, "--no-config", "--python", sys.executable, "-c", "pins.txt", "--from", built[".whl"], *job]
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert sorted(re.findall(r"rank \d of 2", ran.stdout)) == ["rank 0 of 2", "rank 1 of 2"]


def install_other(site, *overwritten):
    """Installs files of PyPI's package `windlass` 0.1.1 as an installer does: over those that exist."""
    (site / "windlass-0.1.1.dist-info").mkdir()
    for name in overwritten:
        (site / name).write_text('"""Of another project."""\n__version__ = "0.1.1"\n')


FIX = "python -m pip uninstall windlass windlass-train; python -m pip install windlass-train\n"


def test_the_other_package_installed_later_is_an_error_with_the_fix(unpacked, tmp_path):
    site = Path(shutil.copytree(unpacked, tmp_path / "site"))
    install_other(
        site, "windlass/__init__.py", "windlass/core/__init__.py", "windlass/agent/__init__.py", "windlass/cli.py"
    )
    ran = run_installed(site, "version")
    assert (ran.returncode, ran.stdout) == (2, "")
    text = "windlass 0.1.1 has overwritten modules of windlass-train; keep one per environment"
    assert ran.stderr == f"windlass: {text}\n{FIX}"


def test_the_other_package_installed_earlier_is_a_warning(unpacked, tmp_path):
    site = Path(shutil.copytree(unpacked, tmp_path / "site"))
    install_other(site, "windlass/testing.py")
    ran = run_installed(site, "version")
    assert (ran.returncode, ran.stdout) == (0, "windlass 0.1.0\n")
    text = "windlass 0.1.1 shares files with windlass-train; keep one per environment"
    assert ran.stderr == f"windlass: {text}\n{FIX}"


def test_the_fix_of_a_clash_names_the_wheel_that_was_installed(unpacked, tmp_path):
    site = Path(shutil.copytree(unpacked, tmp_path / "site"))
    [metadata] = site.glob("windlass_train-*.dist-info")
    (metadata / "direct_url.json").write_text('{"url": "file:///dist/windlass_train-0.1.0-py3-none-any.whl"}')
    install_other(site, "windlass/testing.py")
    name = FIX.rpartition(" ")[0]
    assert run_installed(site, "version").stderr.endswith(
        f"{name} file:///dist/windlass_train-0.1.0-py3-none-any.whl\n"
    )


def test_no_text_names_the_package_of_the_other_project():
    """Names like `windlass` with an extra in brackets would install the other project."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wrong = re.compile(r"\b(?:pip install|uvx|uv pip install|pipx install) '?windlass(?!-train)\b|\bwindlass\\?\[\w")
    files = [
        ROOT / name for name in tracked.split("\0") if name.endswith((".py", ".md", ".yaml", ".sh", "file", ".yml"))
    ]
    found = [file for file in files if file.exists() and wrong.search(file.read_text(errors="replace"))]
    assert found == []
