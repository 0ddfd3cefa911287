"""The log of a queue read again from its beginning: was the order respected, was a job given out twice?

Every change of a job is told in the transaction that makes it, and there is one writer at a time, so that the
log has them in the order in which they were made. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_JOB = re.compile(r"\bJ-(\d+)\b")


@dataclass
class Replayed:
    """What a log tells: claims of a job, how often it was put back, and claims that passed by another."""

    claims: Counter[int] = field(default_factory=Counter)
    requeued: Counter[int] = field(default_factory=Counter)
    out_of_order: list[str] = field(default_factory=list)


def replay(lines: Iterable[tuple[str, str]], places: Mapping[int, tuple[float, int]]) -> Replayed:
    """Replay events (kind and text), oldest first; `places` are the jobs' priorities and sequence numbers.

    All jobs are queued before the first event.
    """
    found, queued = Replayed(), set(places)
    for kind, text in lines:
        if kind not in ("job.claimed", "job.requeued"):
            continue
        match = _JOB.search(text)
        assert match is not None, text
        job = int(match.group(1))
        if kind == "job.requeued":
            queued.add(job)
            found.requeued[job] += 1
            continue
        found.claims[job] += 1
        if job not in queued:
            found.out_of_order.append(f"J-{job} was claimed while another had it")
        elif (first := min(queued, key=lambda each: places[each])) != job:
            found.out_of_order.append(f"J-{job} was claimed before J-{first}")
        queued.discard(job)
    return found
