"""The option that stores what is expected, used once, before the redesign."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="store what the present version prints")
