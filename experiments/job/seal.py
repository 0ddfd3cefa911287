"""The seal of a test: one hash over everything that decides what is measured and how it is judged. Pure.

Sealed before the first sample are the plan (metric, prediction, smallest effect, levels, margins, workload,
stopping), both arms, the reference of quality, the judge with its version, the engine, the model's
fingerprint, the device, the seed, the noise profile that the judge is given, the resolved keys that the
claimed change may move, how many launches may be up at once where that is limited, and the fingerprint of the
texts that prompts, documents and items are cut from, the target where it is another than the campaign's, and
the seconds that it may take where it has such a limit.
Not sealed: ids, and what a hypothesis says in words; workloads that are measured beside and not judged; nor
what a calibration corpus holds, which the artifacts built from it know.

A job from before judges were sealed with their version carries the hash of plan and arms alone, and is held
to it; one from before texts were sealed is held to the rest. So is one from before any field: a job is stored
with all fields that there were, and what a later version added is not in it. The seal is over what is in the
job (`whole`), so that it neither covers what was not there nor overlooks what was taken away.
"""

from __future__ import annotations

import hashlib
import json

from experiments.job.spec import TestJob
from experiments.measurement.judging import Judge
from experiments.space.configuration import Configuration

TAMPERED = "tampered"
"""Failure kind of an experiment that is not what was sealed."""

_FORM = 2
"""Stands in the hashed text, so that two ways of sealing never give one hash."""


def seal_of(spec: TestJob) -> str:
    """SHA-256 over the sealed parts of a job as it is stored, 64 hexadecimal digits; equal for equal parts,
    whatever wrote them."""
    control, candidate = Configuration.of(spec.control), Configuration.of(spec.candidate)
    if spec.judge_version is None:
        return spec.plan.digest(control.digest, candidate.digest)
    reference = None if spec.reference is None else Configuration.of(spec.reference)
    parts: dict[str, object] = {
        "seal": _FORM,
        "control": dict(control),
        "candidate": dict(candidate),
        "reference": None if reference is None else dict(reference),
        "plan": spec.plan.model_dump(mode="json", exclude_none=True, exclude_unset=True),
        "judge": [spec.judge, spec.judge_version],
        "engine": spec.engine,
        "model_fingerprint": spec.model_fingerprint,
        "device": spec.device,
        "seed": spec.seed,
        "noise": spec.noise.model_dump(mode="json", exclude_unset=True),
        "pinned_keys": list(spec.pinned_keys),
    }
    if spec.texts is not None:
        parts["texts"] = spec.texts
    if spec.at_once is not None:
        parts["at_once"] = spec.at_once
    if spec.target is not None:
        parts["target"] = spec.target
    if spec.within_s is not None:
        parts["within_s"] = spec.within_s
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(spec: TestJob) -> TestJob:
    """The job with its seal in it, and with every field that this version has."""
    job = whole(spec)
    return job.model_copy(update={"preregistration_digest": seal_of(job)})


def whole(spec: TestJob) -> TestJob:
    """The same job with all its defaults written down, as it is stored."""
    return TestJob.model_validate(spec.model_dump(mode="json"))


def broken_seal(spec: TestJob) -> str | None:
    """Why a job is not the one that was sealed, as a clause; None when it is."""
    now = seal_of(spec)
    if now == spec.preregistration_digest:
        return None
    return f"its job was sealed as {spec.preregistration_digest[:12]} and gives {now[:12]} now"


def other_texts(spec: TestJob, texts: str) -> str | None:
    """Why these texts, by their fingerprint, are not those that were sealed, as a clause; None when they are,
    or none were named."""
    if spec.texts is None or spec.texts == texts:
        return None
    return (
        f"prompts and documents would be cut from other texts than the baseline's ({texts[:12]}, not "
        f"{spec.texts[:12]}), as another version of Python has them"
    )


def other_judge(spec: TestJob, judge: Judge) -> str | None:
    """Why this judge is not the one that was sealed, as a clause; None when it is, or none was named."""
    if spec.judge_version is None or spec.judge_version == judge.version:
        return None
    return (
        f"it was sealed for the judge {spec.judge} in version {spec.judge_version}, and version "
        f"{judge.version} is installed"
    )
