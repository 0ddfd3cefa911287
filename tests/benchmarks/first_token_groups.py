"""Do prompts of a closed loop come into a step together; what of the times is that? From kept comparisons.

    python -m tests.benchmarks.first_token_groups docs/results/tables/h100-serving-comparison-16-*.json

Requests whose first tokens come within `TOGETHER_S` had their prompts in one step. The fewer such groups a
run has, the fewer steps with prompts stand in the way of the others' tokens. Of each arm are told the groups
of a run, and how long after its predecessor's last token a request was sent; of both together, by least
squares on the logarithm of each run's mean TPOT, TTFT and end to end time (with a term for each server), what
a further group costs and what is left between the arms then. Files are those that `serving_comparison --json`
wrote; of several concurrencies `--concurrency` picks one, for the times of each are its own.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks.arguments import kept_runs

TOGETHER_S = 0.003
"""First tokens less than this apart are of one step, which takes twice as long at least on these servers."""

TIMES = {"TPOT": "tpot_ms", "TTFT": "ttft_ms", "end to end": "e2el_ms"}
"""What is told of, and the field of `Seen` that has it."""


@dataclass(frozen=True)
class Seen:
    """Of one run: its arm, its server, groups of first tokens, seconds from each predecessor's last token to
    its successor's start, and the means of its requests in ms."""

    arm: str
    server: int
    groups: int
    successors_s: tuple[float, ...]
    tpot_ms: float
    ttft_ms: float
    e2el_ms: float


@dataclass(frozen=True)
class Share:
    """Shares of a mean time with their standard errors: what the one arm has more, what a further group
    costs, and what the arm has more among runs of as many groups; of these two None where all runs of a
    server have as many."""

    arms: tuple[float, float]
    group: tuple[float, float] | None
    arms_of_alike: tuple[float, float] | None


def seen(run: dict[str, Any], server: int) -> Seen:
    """What a kept run tells."""
    start_s, ttft_s, decode_s = (np.array(run["saved"][each]) for each in ("start_s", "ttft_s", "decode_s"))
    first_s = np.sort(start_s + ttft_s)
    at_once = run["load"]["concurrency"]
    ends_s = np.sort(start_s + ttft_s + decode_s)
    later_s = np.sort(start_s)[at_once:]
    return Seen(
        run["arm"],
        server,
        1 + int((np.diff(first_s) > TOGETHER_S).sum()),
        tuple((later_s - ends_s[: len(later_s)]).tolist()),
        float(decode_s.mean()) / (run["load"]["new_tokens"] - 1) * 1e3,
        float(ttft_s.mean()) * 1e3,
        float((ttft_s + decode_s).mean()) * 1e3,
    )


def share(runs: Sequence[Seen], arm: str, time: str = "tpot_ms") -> Share:
    """What `arm` has more of a time than the others, and what of that goes with its groups."""
    ours = np.array([each.arm == arm for each in runs], float)
    groups = np.array([each.groups for each in runs], float)
    log_ms = np.log([getattr(each, time) for each in runs])
    (more,) = _fitted(runs, log_ms, ours)
    if len({(each.server, each.groups) for each in runs}) == len({each.server for each in runs}):
        return Share(more, None, None)
    alike, group = _fitted(runs, log_ms, ours, groups)
    return Share(more, group, alike)


def _fitted(runs: Sequence[Seen], log_ms: Any, *columns: Any) -> list[tuple[float, float]]:
    """Each column's coefficient in the logarithm of a time and its standard error, beside a term a server."""
    servers = [
        np.array([each.server == server for each in runs], float)
        for server in sorted({run.server for run in runs})
    ]
    matrix = np.stack([*columns, *servers], axis=1)
    found, *_ = np.linalg.lstsq(matrix, log_ms, rcond=None)
    rest = log_ms - matrix @ found
    variance = float(rest @ rest) / (len(runs) - matrix.shape[1])
    errors = np.sqrt(np.diag(variance * np.linalg.inv(matrix.T @ matrix)))
    return [(float(one), float(error)) for one, error in zip(found, errors, strict=True)][: len(columns)]


def told(runs: Sequence[Seen], arm: str) -> list[str]:
    """The lines that are printed."""
    lines = []
    for each in sorted({run.arm for run in runs}):
        of_it = [run for run in runs if run.arm == each]
        groups = np.array([run.groups for run in of_it])
        sent_ms = np.concatenate([run.successors_s for run in of_it]) * 1e3
        error = groups.std(ddof=1) / len(of_it) ** 0.5
        lines.append(
            f"{each}: {groups.mean():.1f} groups a run (standard error {error:.2f}, {len(of_it)} runs); "
            f"a successor was sent {np.median(sent_ms):.2f} ms after its predecessor's last token (median)"
        )
    for name, time in TIMES.items():
        found = share(runs, arm, time)
        line = f"{name} of {arm}: {_percent(found.arms)}"
        if found.group is not None and found.arms_of_alike is not None:
            alike = f"{arm} among runs of as many groups: {_percent(found.arms_of_alike)}"
            line += f"; a further group: {_percent(found.group)}; {alike}"
        lines.append(line)
    return lines


def _percent(found: tuple[float, float]) -> str:
    return f"{100 * found[0]:+.1f} % (± {100 * found[1]:.1f})"


def read(servers: Sequence[Sequence[dict[str, Any]]]) -> list[Seen]:
    """What the runs of kept comparisons tell, each a server's."""
    return [seen(run, server) for server, runs in enumerate(servers) for run in runs]


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers", nargs="+", type=kept_runs, metavar="FILE")
    parser.add_argument("--arm", default="http", help="whose times are held against the others' (http)")
    parser.add_argument("--concurrency", type=int, metavar="N", help="whose runs, of several")
    given = parser.parse_args(arguments)
    at_once = sorted({run["load"]["concurrency"] for each in given.servers for run in each})
    asked = at_once[0] if given.concurrency is None and len(at_once) == 1 else given.concurrency
    if asked not in at_once:
        held = " and ".join(map(str, at_once)) or "no"
        parser.error(f"--concurrency: these files have runs with {held} requests at once: name one")
    runs = read([[run for run in each if run["load"]["concurrency"] == asked] for each in given.servers])
    arms = sorted({run.arm for run in runs})
    if given.arm not in arms or len(arms) < 2:
        parser.error(
            f"--arm: {given.arm} and another arm are compared, and in these files is {' and '.join(arms)}"
        )
    print("\n".join(told(runs, given.arm)))


if __name__ == "__main__":
    main()
