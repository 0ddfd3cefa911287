"""No line ends between a figure and its unit, and nothing else of a page is touched."""

from __future__ import annotations

import pytest

from dashboard.rendering.linking import together


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        ("<p>It saves 3 % of it.</p>", "<p>It saves 3\u202f% of it.</p>"),
        ("<p>20.1 ms a token, 60 s, 2 points</p>", "<p>20.1\u202fms a token, 60\u202fs, 2\u00a0points</p>"),
        ("<p>+4.4\u202fpoints, 1&#8239;point</p>", "<p>+4.4\u00a0points, 1\u00a0point</p>"),
        ("<p>1,543&#8239;bit, 8 bits</p>", "<p>1,543\u00a0bit, 8 bits</p>"),
        ("<p>by 0.9 % [0.3, 1.4] of it</p>", "<p>by 0.9\u202f% [0.3,\u00a01.4] of it</p>"),
        ("<p>[−1.4, +0.3] %, [1, 2, 3]</p>", "<p>[−1.4,\u00a0+0.3] %, [1, 2, 3]</p>"),
        ("<code>[0.3, 1.4]</code>", "<code>[0.3, 1.4]</code>"),
        ("<p>2 sides, 4 pointers, at 5 of 8</p>", "<p>2 sides, 4 pointers, at 5 of 8</p>"),
        ('<input value="saves 3 % of it"><b>3 %</b>', '<input value="saves 3 % of it"><b>3\u202f%</b>'),
        ("<pre>loaded 3 % in 2 s</pre>", "<pre>loaded 3 % in 2 s</pre>"),
        ("<code>a 3 %</code>", "<code>a 3 %</code>"),
        ("<textarea>3 % less</textarea>", "<textarea>3 % less</textarea>"),
    ],
)
def test_sentences_keep_their_figures_together(html: str, kept: str) -> None:
    assert together(html) == kept
