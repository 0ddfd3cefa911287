"""Which of the target's layers a drafter reads, and where they are after depth pruning. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence


def spread_layers(target_layers: int, count: int) -> tuple[int, ...]:
    """Return `count` layers of a target spread evenly from its second to its last but one, ascending.

    Fewer when the target has not as many. The first layer knows little of the context, and what the last
    adds is mostly the next token, which is known by then.
    """
    first, last = min(1, target_layers - 1), max(target_layers - 2, 0)
    if count == 1 or last <= first:
        return (last,)
    return tuple(sorted({round(first + (last - first) * step / (count - 1)) for step in range(count)}))


def remapped_layer_ids(layer_ids: Sequence[int], kept_layers: Sequence[int]) -> tuple[int, ...]:
    """Return where the layers are read after depth pruning: one place in the pruned target for each.

    Args:
        layer_ids: layers of the whole target, from 0.
        kept_layers: the layers that are left, in order; place i of the pruned target is `kept_layers[i]`.

    A layer that is gone is replaced by the nearest earlier one that stays (the stream that it would have
    read), or by the first when none is earlier. Two may fall on one place: the result is as long as
    `layer_ids`, and `distinct_places` says how they are merged.

    Raises:
        ValueError: no layer is kept.
    """
    if not kept_layers:
        raise ValueError("kept_layers is empty; a target has at least one layer")
    return tuple(
        max((place for place, layer in enumerate(kept_layers) if layer <= wanted), default=0)
        for wanted in layer_ids
    )


def distinct_places(places: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the places without repetition, ascending, and for each given place its index among them.

    Features of one stream that are read twice can be read once, with the two blocks of `fc` added: the sum
    is the same. vLLM reads every layer at most once, so a saved drafter has to be of that form.
    """
    distinct = tuple(sorted(set(places)))
    return distinct, tuple(distinct.index(place) for place in places)
