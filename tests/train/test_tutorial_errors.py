"""The proofs of the guide to tutorial errors that run PyTorch."""

from __future__ import annotations

import contextlib
import io
import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from forked_ranks import ranks
from torch.distributed import constants, launch

from documented_blocks import BLOCKS


def run_script(name: str, folder: Path) -> str:
    """Runs a program of the page in a folder; returns what it prints on this rank."""
    os.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(BLOCKS[name], {})  # noqa: S102 - a program of our own page
    return printed.getvalue()


def test_rank_0_alone_saves_a_half_and_both_ranks_the_whole(tmp_path):
    assert ranks(2, run_script, "rank0.py", tmp_path) == [BLOCKS["torchrun --nproc-per-node 2 rank0.py"], ""]


def test_the_default_timeout_of_collectives_is_that_of_torch():
    assert constants.default_pg_timeout == timedelta(minutes=30)
    assert constants.default_pg_nccl_timeout in {timedelta(minutes=10), None}  # None: torch without NCCL


def test_torch_warns_of_its_old_launcher(capsys):
    with pytest.warns(FutureWarning) as caught, contextlib.suppress(SystemExit):
        launch.main(["--help"])
    capsys.readouterr()
    assert f"FutureWarning: {caught[0].message}".startswith(shown("torch.distributed.launch"))


def test_torch_recommends_another_class_than_data_parallel():
    assert words(shown("DataParallel")) in words(torch.nn.DataParallel.__doc__)


def shown(part: str) -> str:
    [text] = [text for command, text in BLOCKS.items() if command.startswith("python -") and part in command]
    return text


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
