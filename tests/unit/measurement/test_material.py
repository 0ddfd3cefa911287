from pathlib import Path

from experiments.measurement.material import HeldOutMaterial
from experiments.measurement.plan import Workload
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer


def test_material_is_the_same_for_every_job_on_a_checkpoint(tmp_path: Path) -> None:
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    workload = Workload(evaluation_documents=4, evaluation_tokens_per_document=64, evaluation_items=14)
    one, other = HeldOutMaterial(tmp_path, "cpu", 0), HeldOutMaterial(tmp_path, "cpu", 1)
    assert one.documents(workload) == other.documents(workload)
    assert one.tasks(workload) == other.tasks(workload)
    assert one.identity(workload) == other.identity(workload)
    assert one.requests(workload, 3, 1, 2) == other.requests(workload, 3, 1, 2)
    assert len(one.documents(workload)) == 4
    assert len(one.tasks(workload)) == 14
    assert one.identity(workload) != one.identity(workload.model_copy(update={"evaluation_items": 13}))
    assert one.machine() is one.machine()
