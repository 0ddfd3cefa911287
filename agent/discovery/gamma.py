"""The discount sequence: which share of alpha the t-th test of a stream is given. Pure.

gamma_t = t^(−s) / zeta(s) with s = 1.6, which sums to 1 over all t. It is the sequence that Ramdas, Zrnic,
Wainwright and Jordan (SAFFRON, ICML 2018) and Tian and Ramdas (ADDIS, NeurIPS 2019) use, and the default of
the R package onlineFDR for both: 0.4374901658 · t^(−1.6). It falls slower than the 1/(t(t + 1)) of a plain
telescope, so that the tenth or the thirtieth test of a campaign can still be supported, and spends 44 % on
the first.
"""

from __future__ import annotations

EXPONENT = 1.6
"""How fast the shares fall; anything above 1 has a finite sum."""

TOTAL = 2.2857656656801293
"""The sum of t^(−s) over all t from 1 on, zeta(1.6). As a figure, because asking scipy for it takes the
dashboard and every command that puts a hypothesis into the queue a tenth of their start."""


def gamma(test: int) -> float:
    """The share of the `test`-th test, counted from 1; raises `ValueError` below 1."""
    if test < 1:
        raise ValueError(f"tests are counted from 1, and this is number {test}")
    return float(test**-EXPONENT) / TOTAL
