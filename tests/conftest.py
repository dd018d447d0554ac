"""Options and fixtures that every kind of test shares."""

import gc
import os
import signal
import sys

import pytest
import used_permissions
from planes import delays, fixtures

import side_by_side
from depth import use_depth_by_default


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what was decided into the golden scenario scripts")


def pytest_configure(config: pytest.Config) -> None:
    """Give programs under test a SIGINT that works: a shell that runs pytest in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Compiled modules are kept: without them a program under test takes twice as long to start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.pluginmanager.register(fixtures)
    config.pluginmanager.register(side_by_side)
    used_permissions.record_session(config)
    use_depth_by_default()
    delays.delay_requests()
    gc.disable()  # collections while modules are imported find little, and take a quarter of that time


def pytest_collection_finish() -> None:
    """Exempt all objects so far, torch's among them, from Python's garbage collections: a full one takes 0.3 s."""
    gc.freeze()
    gc.enable()
