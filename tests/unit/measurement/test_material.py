from pathlib import Path

from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.material import HeldOutMaterial
from experiments.measurement.plan import Workload
from tests.unit.measurement.tiny_tokenizer import END, tiny_tokenizer


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


def test_parts_of_the_material_share_no_document_and_no_item(tmp_path: Path) -> None:
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    workload = Workload(evaluation_documents=4, evaluation_tokens_per_document=64, evaluation_items=14)
    material = HeldOutMaterial(tmp_path, "cpu", 0)
    documents = [{each.item for each in material.documents(workload, part)} for part in range(3)]
    tasks = [{each.item for each in material.tasks(workload, part)} for part in range(3)]
    for found, size in ((documents, 4), (tasks, 14)):
        assert [len(part) for part in found] == [size] * 3
        assert len(set.union(*found)) == 3 * size
    assert len({material.identity(workload, part)["digest"] for part in range(3)}) == 3


def test_the_last_part_has_the_documents_that_are_left(tmp_path: Path) -> None:
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    workload = Workload(evaluation_documents=200, evaluation_tokens_per_document=8, evaluation_items=0)
    material = HeldOutMaterial(tmp_path, "cpu", 0)
    first, further, beyond = (material.documents(workload, part) for part in range(3))
    assert len(first) == 200
    assert 0 < len(further) < 200
    assert beyond == []


def test_drafting_is_checked_on_held_out_code_prose_and_instructions(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    workload = Workload(prompt_tokens=100, drafting_prompts=5, drafting_new_tokens=32)
    prompts = HeldOutMaterial(tmp_path, "cpu", 0).drafting_prompts(workload)
    assert prompts == HeldOutMaterial(tmp_path, "cpu", 7).drafting_prompts(workload)
    assert len({each.item for each in prompts}) == 15
    texts = {
        content: [
            tokenizer.decode(list(each.prompt_ids), skip_special_tokens=False)
            for each in prompts
            if each.item.startswith(f"{content}:")
        ]
        for content in CONTENT_CLASSES
    }
    assert all(len(found) == 5 for found in texts.values())
    assert all(
        text.startswith((f"{END}class ", f"{END}def ", f"{END}    def ", f"{END}@")) for text in texts["code"]
    )
    assert all(text.startswith(f'{END}"""') for text in texts["prose"])
    assert all(text.endswith("<|im_start|>assistant\n") for text in texts["instruct"])
    for each in prompts:
        assert each.new_tokens == 32
        assert each.item.startswith("instruct:") or 16 <= len(each.prompt_ids) <= 100
