"""What one product tells of a kernel's others, on the timings of GPUs that are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import pytest

from tests.device.by_one_product import Told, main, timings_in, told_by_one

KEPT = Path(__file__).parents[3] / "docs" / "results" / "campaigns"


def kept(names: str) -> list[Told]:
    """What GPUs told and was kept in files of these names."""
    paths = sorted(KEPT.glob(names))
    return [told for path in paths for timings in timings_in(path) for told in told_by_one(timings)]


def squares(values: Iterable[float]) -> float:
    return math.fsum(value**2 for value in values)


def test_one_product_tells_of_the_others_within_what_is_said() -> None:
    found = kept("*-9b*-kernels.json")
    assert len(found) >= 40
    assert all(each.is_inside for each in found)
    ratio = squares(each.at_ratio_log for each in found)
    assert squares(each.off_log for each in found) < 0.1 * ratio, "the ratio to 16 bits alone is further off"


def test_of_small_products_it_tells_less_and_more_is_open() -> None:
    """Those of a Mixture of Experts, of which that product is a third: still not all that is said there."""
    mixture, dense = kept("*-35b-a3b-kernels.json"), kept("*-9b*-kernels.json")
    assert len(mixture) == 9
    assert squares(each.off_log for each in mixture) < 0.5 * squares(each.at_ratio_log for each in mixture)
    assert squares(each.off_log / each.sd_log for each in mixture) < 2.5 * len(mixture)
    assert fmean(each.sd_log for each in mixture) > 2 * fmean(each.sd_log for each in dense)


def test_what_is_told_is_printed_and_a_file_that_tells_nothing_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(KEPT / "h200-9b-vllm-0.33-alone-kernels.json")])
    assert "marlin (MarlinLinearKernel), 4 bits, groups of 128" in (told := capsys.readouterr().out)
    assert "lie inside 80 % of what is said of them" in told
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    with pytest.raises(SystemExit, match="No file holds a kernel"):
        main([str(empty)])
    empty.write_text('{"cuda:0": 7}')
    for path in (empty, tmp_path / "none.json"):
        with pytest.raises(SystemExit, match="holds no kernel timings that can be read"):
            main([str(path)])
