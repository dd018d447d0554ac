"""Options and fixtures that every kind of test shares."""

import signal

import pytest
from controlplane import fixtures


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what was decided into the golden scenario scripts")


def pytest_configure(config: pytest.Config) -> None:
    """A shell that runs us in the background hands SIGINT down as ignored; programs under test are to get theirs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(fixtures)
