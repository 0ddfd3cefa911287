"""What is worked out of a record is worked out once for it, for each of the words asked with."""

from dataclasses import replace

from agent.judge.once import once
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage

RECORD = LaunchRecord(
    arm=Arm.CONTROL,
    index=0,
    stage=Stage.QUICK,
    configuration_digest="a",
    resolved={},
    environment={},
    load_s=1.0,
    samples=(
        Sample(0, 0, "b", 1, Metric.TPOT_MS, 2.0),
        Sample(0, 0, "a", 0, Metric.TPOT_MS, 1.0),
        Sample(0, 0, "a", 0, Metric.E2EL_MS, 9.0),
    ),
)


def test_a_record_s_number_is_worked_out_once_for_each_word_and_anew_for_another_record() -> None:
    asked: list[tuple[float, Metric]] = []

    @once
    def total(record: LaunchRecord, metric: Metric) -> float:
        asked.append((record.load_s, metric))
        return sum(record.values(metric))

    record, other = replace(RECORD), replace(RECORD, load_s=2.0, samples=RECORD.samples[:1])
    assert [total(record, Metric.TPOT_MS) for _ in range(2)] == [3.0, 3.0]
    assert total(record, Metric.E2EL_MS) == 9.0
    assert total(other, Metric.TPOT_MS) == 2.0
    assert asked == [(1.0, Metric.TPOT_MS), (1.0, Metric.E2EL_MS), (2.0, Metric.TPOT_MS)]


def test_two_functions_of_one_record_keep_what_each_found() -> None:
    @once
    def first(record: LaunchRecord) -> str:
        return record.samples[0].item

    @once
    def last(record: LaunchRecord) -> str:
        return record.samples[-1].item

    assert [(first(RECORD), last(RECORD)) for _ in range(2)] == [("b", "a")] * 2


def test_samples_of_a_metric_keep_their_order_and_its_values_come_as_they_were_taken() -> None:
    assert [sample.item for sample in RECORD.of(Metric.TPOT_MS)] == ["b", "a"]
    assert RECORD.values(Metric.TPOT_MS) == [1.0, 2.0]
    assert RECORD.of(Metric.TTFT_MS) == ()
    assert RECORD.values(Metric.TTFT_MS) == []


def test_what_was_kept_makes_no_record_another() -> None:
    looked = replace(RECORD)
    looked.values(Metric.TPOT_MS)
    looked.kept["anything"] = 1
    assert looked == replace(RECORD)
    assert replace(looked).kept == {}
