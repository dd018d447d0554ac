"""The choice of the launcher of a job by the imports of its scripts."""

import os
import sys

import pytest

from windlass.backends.local.launcher_choice import choose_launcher, imported_modules
from windlass.core.model.job import Job, Launcher, Role

PATH = os.environ["PATH"]


@pytest.fixture
def chosen(tmp_path):
    """Returns a function: the launcher for a command in a folder with these files."""

    def choose(command, procs=2, **files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        words = (sys.executable if word == "python" else word for word in command.split())
        return choose_launcher(Job("j", (Role(procs=procs, command=tuple(words)),), workdir=str(tmp_path)), PATH)

    return choose


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "import torch.nn as nn",
        "def main():\n    from torch import nn",
        "from windlass import train",
        "from pytorch_lightning import Trainer",
    ],
)
def test_scripts_that_import_torch_get_agents(chosen, text):
    assert chosen("python train.py --lr 1", train=text) is Launcher.AGENT


def test_modules_beside_the_script_are_read_too(chosen):
    files = {"train": "from pkg import loop", "pkg__loop": "from . import model", "pkg__model": "import torch"}
    assert chosen("python train.py", **files) is Launcher.AGENT
    assert chosen("python -m pkg.loop", **files) is Launcher.AGENT


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("python train.py", "print('torch')"),
        ("python train.py", "import torch ="),
        ("python -c import-torch", "import torch"),
        ("python -O train.py", "import torch"),
        ("python nowhere.py", "import torch"),
        ("./train.py", "import torch"),
        ("python9 train.py", "import torch"),
        ("python3.99 train.py", "import torch"),
    ],
)
def test_other_commands_get_the_plain_launcher(chosen, command, text):
    assert chosen(command, train=text) is Launcher.PLAIN


def test_a_single_rank_gets_an_agent_only_if_it_sends_heartbeats(chosen):
    assert chosen("python train.py", procs=1, train="import torch") is Launcher.PLAIN
    assert chosen("python train.py", procs=1, train="import windlass.train") is Launcher.AGENT


def test_modules_that_import_each_other_are_read_once(tmp_path):
    (tmp_path / "a.py").write_text("import b")
    (tmp_path / "b.py").write_text("import a, os.path")
    assert imported_modules(tmp_path / "a.py", tmp_path) == {"a", "b", "os", "os.path"}
