"""Regret by trials as a picture, one line a planner. SVG, in light and dark. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

from agent.replay.score import Score

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 186, 54, 46
NAME_GAP = 20
"""Units from one name to the next."""

STYLES = {
    "ours": "c1 w3",
    "ours-without-physics": "c1 w1 d1",
    "ours-without-learning": "c1 w1 d2",
    "tpe": "c2 w2",
    "smac": "c3 w2",
    "random": "c0 w2",
    "greedy": "c0 w1 d1",
    "grid": "c0 w1 d2",
}
"""Colour, width and dash of the planners that come with autoinfer."""

OTHERS = ("c4 w2", "c4 w2 d1", "c4 w2 d2")
"""Those of any others, in turn."""

CSS = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.t{font-size:14px;font-weight:600}.q{fill:#59636e}
.n{font-size:12px}
.b{fill:#fff}path,line{fill:none}.g{stroke:#d1d9e0;stroke-width:1}
.w1{stroke-width:1.5}.w2{stroke-width:2}.w3{stroke-width:3}
.d1{stroke-dasharray:6 4}.d2{stroke-dasharray:2 3}
.c0{stroke:#818b98}.c1{stroke:#0a5bc4}.c2{stroke:#c2410c}.c3{stroke:#0f766e}.c4{stroke:#8b3fb8}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.q{fill:#9198a1}.g{stroke:#3d444d}.b{fill:#0d1117}
.c0{stroke:#9198a1}.c1{stroke:#6cb0ff}.c2{stroke:#ff9a5c}.c3{stroke:#4fd1c0}.c4{stroke:#d2a0ff}}
"""


def regret_svg(scores: Sequence[Score], title: str, subtitle: str) -> str:
    """The mean regret of each planner, in per cent of the best gain, from trial 0 on."""
    styles = _styles([score.planner for score in scores])
    trials = max(len(score.regret) for score in scores) - 1
    top = max(1.0, *(value for score in scores for value in score.regret))
    across = (WIDTH - LEFT - RIGHT) / max(1, trials)
    up = (HEIGHT - TOP - BOTTOM) / top

    def x(trial: float) -> float:
        return LEFT + across * trial

    def y(regret: float) -> float:
        return HEIGHT - BOTTOM - up * max(0.0, regret)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}"><style>{"".join(CSS.split(chr(10)))}</style>',
        '<rect class="b" width="100%" height="100%"/>',
        f'<text class="t" x="8" y="18">{escape(title)}</text>',
        f'<text class="q n" x="8" y="35">{escape(subtitle)}</text>',
    ]
    for percent in _ticks(top):
        at = y(percent / 100)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="q n" text-anchor="end" x="{LEFT - 8}" y="{at + 4:.1f}">{percent} %</text>'
        )
    for trial in _places(trials):
        parts.append(
            f'<text class="q n" text-anchor="middle" x="{x(trial):.1f}" y="{HEIGHT - BOTTOM + 18}">'
            f"{trial}</text>"
        )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(
        f'<text class="q n" text-anchor="middle" x="{middle}" y="{HEIGHT - 8}">trials after trial 0</text>'
    )
    for score in reversed(scores):  # the first lies on top
        points = " L".join(f"{x(k):.1f} {y(value):.1f}" for k, value in enumerate(score.regret))
        parts.append(f'<path class="{styles[score.planner]}" d="M{points}"/>')
    return "\n".join([*parts, *_names(scores, styles)]) + "\n</svg>\n"


def _styles(planners: Sequence[str]) -> dict[str, str]:
    """The style of each planner's line."""
    others = cycle(OTHERS)
    return {name: STYLES.get(name) or next(others) for name in planners}


def _names(scores: Sequence[Score], styles: Mapping[str, str]) -> list[str]:
    """Names beside the plot in the order of the lines' mean height, each with a stroke of its line."""
    ordered = sorted(scores, key=lambda score: -sum(score.regret))
    first = TOP + 10
    found = []
    for place, score in enumerate(ordered):
        at = first + place * NAME_GAP
        left = WIDTH - RIGHT + 14
        found.append(
            f'<path class="{styles[score.planner]}" d="M{left} {at - 4}H{left + 20}"/>'
            f'<text class="n" x="{left + 26}" y="{at}">{escape(score.planner)}</text>'
        )
    return found


def _ticks(top: float) -> list[int]:
    step = 25 if top <= 1.5 else 100 if top <= 6 else 500
    return list(range(0, int(100 * top) + 1, step))


def _places(trials: int) -> list[int]:
    step = 1 if trials <= 12 else 2 if trials <= 24 else 5 if trials <= 60 else 20
    return list(range(0, trials + 1, step))
