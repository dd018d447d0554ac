"""Options and fixtures that every kind of test shares."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what was decided into the golden scenario scripts")
