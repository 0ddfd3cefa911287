"""In which order launches are timed: balanced, so that drift of the machine favours nobody. Pure."""

from __future__ import annotations

import random

from experiments.measurement.evidence import Arm


def seats(seed: int, pair: int) -> tuple[Arm, Arm]:
    """The arms of a launch pair in the order in which they are opened and warmed up.

    It alternates with the launch pair's index and with the seed, so that what the first seat does to a launch
    cancels over every two pairs.
    """
    return (Arm.CONTROL, Arm.CANDIDATE) if (seed + pair) % 2 == 0 else (Arm.CANDIDATE, Arm.CONTROL)


def abba(seed: int, pair: int, first_block: int, blocks: int) -> tuple[Arm, ...]:
    """Return the arms of `blocks` blocks an arm, from block `first_block` on: A B B A B A A B …

    Blocks of equal number stand side by side; whether the control or the candidate leads in a couple
    follows the Thue-Morse sequence, so that a linear drift cancels over every 2 couples that begin at an
    even block and a quadratic one over every 4 (Prouhet). The arm that has the first seat leads the
    first couple.
    """
    lead, follow = seats(seed, pair)
    order: list[Arm] = []
    for block in range(first_block, first_block + blocks):
        order += (follow, lead) if block.bit_count() % 2 else (lead, follow)
    return tuple(order)


def round_robin(seed: int, launches: int, rounds: int) -> tuple[tuple[int, ...], ...]:
    """Return for each round the order in which the launches 0 … `launches` − 1 are timed.

    Each second round is the one before reversed, so that over an even number of rounds every launch has the
    same mean position and a linear drift cancels; each couple of rounds is shuffled anew from `seed`.
    """
    shuffle = random.Random(seed)
    order: list[tuple[int, ...]] = []
    while len(order) < rounds:
        forward = list(range(launches))
        shuffle.shuffle(forward)
        order += [tuple(forward), tuple(reversed(forward))]
    return tuple(order[:rounds])
