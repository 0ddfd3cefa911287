"""The parts of the page on false discoveries and on a profile that a whole campaign shares."""

from __future__ import annotations

from tests.proofs.counting import plain
from tests.proofs.hypothesis_streams import LENGTH, SHARES, Mixture
from tests.proofs.markdown import paragraph, table
from tests.proofs.shared_profile import LAUNCH_SD, UNLUCKY
from tests.proofs.targets import SCARCE_FREEDOM, Results, rate_words


def discoveries_part(results: Results) -> str:
    """False discoveries over streams."""
    columns = ("streams", "support at", "false in time", "false in quality", "worth having and found")
    rows = [
        (
            mixture.value,
            "e-LOND's level" if controlled else f"{plain(results.plan.alpha)} each",
            rate_words(found.in_time, found.supported),
            rate_words(found.in_quality, found.supported),
            str(found.power),
        )
        for (mixture, controlled), found in sorted(
            results.rates.items(), key=lambda each: (list(Mixture).index(each[0][0]), -each[0][1])
        )
    ]
    text = (
        "*Usual* streams are those of above. In those *hardest in time* every null lies where it is "
        f"likeliest to be supported ({mixture_words(Mixture.HARDEST)}); in those *hardest in quality* every "
        "null gains, and loses just what the guard of quality may let pass "
        f"({mixture_words(Mixture.AT_MARGIN)}). False in time is what was called supported and gains no more "
        "than min_effect; false in quality what loses as much as the margin or more. A rate is the mean over "
        f"{len(results.streams)} streams of false over all supported, ± three standard errors. The online "
        "control is of the time alone; the guard of quality tests each hypothesis at "
        f"{plain(results.plan.alpha)}, uncorrected: of those that lose exactly the margin it let pass "
        f"{results.at_margin}."
    )
    return f"## False discoveries\n\n{paragraph(text)}\n\n{table(columns, rows)}"


def shared_part(results: Results) -> str:
    """Campaigns whose tests share one noise profile."""
    columns = (
        "profile's degrees of freedom",
        "interval holds at every look",
        "in the worst campaigns",
        "called supported",
        "most in one campaign",
    )
    rows = [
        (
            str(each.freedom),
            str(each.together.share(each.together.held_everywhere)),
            str(each.unlucky),
            str(each.together.share(each.together.supported)),
            f"{each.most_supported} of {LENGTH}",
        )
        for each in results.shared
    ]
    first = results.shared[0]
    text = (
        "The tests of a campaign share one noise profile, and what holds on average over profiles need not "
        f"hold of each. {len(first.campaigns)} campaigns of {LENGTH} equal experiments, a gain of exactly "
        f"min_effect, launches that vary by {plain(LAUNCH_SD)}, support at {plain(results.plan.alpha)} each; "
        "each campaign draws one profile. The *worst campaigns* are the "
        f"{plain(UNLUCKY)} in which the fewest intervals held. A profile of {SCARCE_FREEDOM} degrees of "
        "freedom is what three noise launches give."
    )
    after = (
        f"Streams that are {Mixture.HARDEST.value}, under online control, with such a profile each: false in "
        f"time {rate_words(results.scarce.in_time, results.scarce.supported)}."
    )
    parts = ["## One profile for a whole campaign", paragraph(text), table(columns, rows), paragraph(after)]
    return "\n\n".join(parts)


def mixture_words(mixture: Mixture) -> str:
    """The shares of a mixture."""
    return "; ".join(f"{kind.value}: {plain(share)}" for kind, share in SHARES[mixture].items())
