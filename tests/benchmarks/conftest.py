"""Options of the benchmarks."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--drafting-page", metavar="FILE", help="write what test_losslessness.py finds to this page"
    )
