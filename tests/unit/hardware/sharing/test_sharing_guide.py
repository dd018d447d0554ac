"""The guide's commands run, and its example and output are the real ones."""

import re
import shlex
from pathlib import Path

import yaml

from windlass.cli.entry import main

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs/guides/gpu-sharing.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_guide_succeed(monkeypatch, tmp_path, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in (line for block in blocks("sh") for line in block.splitlines()):
        program, *words = shlex.split(line)
        assert (program, main(words)) == ("windlass", 0), line
        capsys.readouterr()
    table = re.findall(r"^\| (`[a-z-]+\.(?:yaml|sh)`.*?) \|", GUIDE, re.MULTILINE)
    assert {name for cell in table for name in re.findall(r"`(.*?)`", cell)} == {
        path.name for path in (tmp_path / "plan").iterdir()
    }


def test_the_output_in_the_guide_is_that_of_the_example(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    main(["gpu", "plan", "examples/gpu-sharing/request.yaml"])
    assert capsys.readouterr().out.startswith(blocks("text")[0])


def test_the_request_in_the_guide_is_the_example():
    assert yaml.safe_load(blocks("yaml")[0]) == yaml.safe_load((ROOT / "examples/gpu-sharing/request.yaml").read_text())
