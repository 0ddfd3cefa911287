"""Options of the benchmarks."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--drafting-page", metavar="FILE", help="write what test_losslessness.py finds to this page"
    )
    parser.addoption(
        "--viewers-s",
        metavar="SECONDS",
        type=float,
        help="seconds that test_viewers.py watches for, instead of the ten minutes that are promised",
    )
