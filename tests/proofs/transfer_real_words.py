"""What the page of transfer says of the real engine: fourteen seeds that were run by hand. Pure."""

from __future__ import annotations

from tests.proofs.markdown import paragraph, table


def on_the_real_engine() -> list[str]:
    """The section's blocks."""
    return [
        "## On the real engine",
        paragraph(" ".join(_REAL.split())),
        table(_SEED_COLUMNS, _SEEDS),
        *(paragraph(" ".join(each.split())) for each in (_REAL_LONG, _REAL_MORE, _REAL_WHY, _REAL_HOST)),
    ]


_REAL = """On the real engine: `python -m tests.proofs.transfer_real FOLDER --seeds 3` runs, for each seed,
a campaign on the packaged model, one on a variant pruned by the house's own stage after it, and
one on the variant alone, and prints the trials that each of the two needed. Wanted is 0.6 of the
trials. Ten seeds were run while what carries over was being mended, six on two cores, half an hour
each, and four at a time on the processors of an H200's host (`--beside --first-budget 11m30s --budget
9m`), two for each campaign: by what each campaign measured **one of these met it and nine missed it**.
Four more were run with all mends and a longer first campaign, on the processors of a host of four
H200s (`--beside --first-budget 14m30s --budget 9m30s`), four for each campaign: by what each campaign
measured **three of these met it and one missed it by 0.4 points; with one gain for what is one
configuration all four met it**."""

_SEEDS = (
    ("0, 2026-11-23", "75.8 %", "2", "2", "75.7 %", "8.8 %", "—", "—"),
    ("1, 2026-11-26", "71.9 %", "never in 9", "6", "62.3 %", "12.9 %", "never in 9", "6"),
    ("2, 2026-11-26", "71.2 %", "**1**", "6", "74.9 %", "11.2 %", "never in 6", "6"),
    ("3, 2026-11-26", "71.3 %", "10", "6", "0.0 %", "10.1 %", "**3**", "6"),
    ("4, 2026-11-26", "66.8 %", "4", "2", "10.0 %", "13.5 %", "4", "4"),
    ("5, 2026-11-26, mended", "65.8 %", "3", "2", "63.5 %", "12.2 %", "3", "2"),
    ("6, 2026-11-26, the host", "70.3 %", "3", "4", "0.0 %", "0.0 %", "—", "—"),
    ("7, 2026-11-26, the host", "67.6 %", "never in 3", "3", "0.0 %", "0.0 %", "—", "—"),
    ("8, 2026-11-26, the host", "69.4 %", "never in 6", "3", "0.0 %", "13.7 %", "—", "—"),
    ("9, 2026-11-26, the host", "69.4 %", "2", "3", "0.0 %", "0.0 %", "—", "—"),
    ("10, 2026-11-26, mended, longer", "69.9 %", "**1**", "2", "73.6 %", "0.0 %", "**1**", "2"),
    ("11, 2026-11-26, mended, longer", "70.0 %", "**1**", "3", "72.6 %", "0.0 %", "**1**", "3"),
    ("12, 2026-11-26, mended, longer", "66.6 %", "**1**", "2", "67.8 %", "0.0 %", "**1**", "2"),
    ("13, 2026-11-26, mended, longer", "71.1 %", "never in 5", "2", "70.7 %", "0.0 %", "**1**", "2"),
)
"""Each seed: what was looked for, the trials of both campaigns, what the first trial of each saved, and the
trials by what their bests take beside each other; of seeds 10 to 13 with one gain for one configuration."""

_SEED_COLUMNS = (
    "seed",
    "looked for",
    "trials with",
    "without",
    "first trial with saved",
    "without",
    "beside each other, or one gain for one configuration: trials with",
    "without",
)

_REAL_LONG = """Seeds 10 to 13 ([what was measured](tables/transfer-real-long-first.jsonl)) ran at
the same time, beside campaigns and a benchmark on the host's GPUs, each kept to processors of its
own. In all four the first trial with knowledge was the change that the first campaign had settled,
compilation, and the campaign alone came to the same change one or two trials later: its first trial
(in seed 11 its second) was the C++ wrapper, which crashes there, and which the first campaign had
ruled out. In seeds 10 and 13 both found the very same configuration, from the same baseline. In
seed 13 two tests of it saved 70.7 and 74.8 %, which alone is why it counts as a miss; with the mean
of the two for both it is met. That this is one configuration was looked at after the miss had been
seen. In seeds 11 and 12 the sweeps had chosen different numbers of threads, and nothing is pooled.
Seed 10 was cut by the end of the lease within the tests that followed. Drafting by n-grams on top
of it was settled by no campaign, also not by the longer first ones: what was looked for is what
compilation saves. Each of these is one trial against two or three: what is saved is the other
campaign's trials without gain."""

_REAL_MORE = """Saved is a share of a token's time. Gains are as each campaign measured them once,
and on these cores one configuration's gain differs between two tests by as much as the 5 % that
decide. So the eight configurations that were a best in seeds 1 to 5 were measured beside each other
afterwards (`python -m tests.proofs.transfer_side_by_side FOLDER … --launches 4 --turns 10`,
2026-11-26, nothing beside it): by that too one met the 0.6 and four missed it, another one. Even so
the medians of four launches of one configuration lie up to 50 % apart (1.77 to 2.68 ms; [what was
measured](tables/transfer-side-by-side.jsonl)), so the last two columns are no last word."""

_REAL_WHY = """What it shows all the same: what was carried puts the right lever first, so that the
first trial saves most of what there is to save, and the target counts the last few percent.
Compilation alone takes 2.26 ms of 6.79, with four tokens drafted by n-grams 1.86, and that step the
campaigns with knowledge did not settle in their time: in seed 5 four such tests came out at −8 to
−11 %, each with an interval of 40 percentage points. Seed 1 is no fair comparison, since other
tests of this repository ran beside most of it, and type checks beside seed 3 for a minute. In seed
4 a cheaper test was taken before the first in the queue because its verdict comes soonest, and
nobody proposed the other campaign's best as one change: both were mended before seed 5 ([the
queue](../ranking.md), [who proposes](../proposers.md#what-another-campaign-found-best)), where that
best was proposed, stood first and went first."""

_REAL_HOST = """What seeds 6 to 9 showed: on the host's PyTorch (2.11) the C++ wrapper of compiled code
crashes, and **all four campaigns with knowledge began with it all the same**, though the campaign
before had found that out: a failure there counted half, so that it still ran with a chance of 0.7. In
seed 8 the other campaign's best, compilation and drafting together, stood behind drafting alone and
never had its turn. Both were mended afterwards: what crashed on the same hardware with the same
versions counts whole, and another campaign's best goes before its own parts ([the
queue](../ranking.md#what-other-campaigns-measured)). The campaigns without knowledge began with the
crash too in seeds 6, 7 and 9, and could not know. Take that one trial from those with knowledge alone,
and seeds 6 and 9 stand at 2 against 4 and 1 against 3: an estimate, which nobody has measured. In seed
7 the campaign with knowledge began from bfloat16, which was faster in its sweep and slower compiled. In
seed 8 it ended 0.6 points short. These seeds are of before the mends, the tables above of after them."""
