"""e-LOND: the level of the next test of a stream (Xu and Ramdas, AISTATS 2024). Pure.

Their "Online multiple testing with e-values" sets

    alpha_t = alpha · gamma_t · (R + 1)

where R counts the discoveries among the tests before. A test is a discovery when its e-value reaches
1 / alpha_t. Then the false discovery rate is at most alpha at every time and however the tests depend on each
other, for a test that is a discovery makes the number of discoveries at least R + 1, so that

    FDR = E[sum over nulls t of 1{e_t ≥ 1/alpha_t} / max(1, R_T)]
        ≤ sum over nulls t of alpha · gamma_t · E[e_t]  ≤  alpha,

which asks of an e-value only that its mean under its null is at most 1. R may be counted too low (a verdict
that is not known yet, when several tests run at once): the level is then stricter, and the bound holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.discovery.gamma import gamma


def level(alpha: float, tests_before: int, discoveries: int) -> float:
    """The level of the next test, after `tests_before` tests of which `discoveries` are known to be ones.

    Never above alpha. Raises `ValueError` for an alpha outside (0, 1) and for counts that can't be.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}, and must lie between 0 and 1")
    if not 0 <= discoveries <= tests_before:
        raise ValueError(f"{discoveries} discoveries among {tests_before} tests can't be")
    return min(alpha, alpha * gamma(tests_before + 1) * (discoveries + 1))


def discoveries_of(alpha: float, e_values: Iterable[float]) -> tuple[bool, ...]:
    """Which tests of a whole stream are discoveries, each judged when its turn comes."""
    found: list[bool] = []
    for e_value in e_values:
        found.append(e_value * level(alpha, len(found), sum(found)) >= 1)
    return tuple(found)
