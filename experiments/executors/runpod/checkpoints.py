"""How pods come by the checkpoints of jobs: they see no folder of this machine."""

from __future__ import annotations

from configs.errors import AutoinferError, ProviderUnreachable
from experiments.artifacts.originals import original_key
from experiments.artifacts.shared import S3, SharedArtifacts, SharedUnreachable, check_shared
from experiments.executors.checkpoint_there import folder_to_bring, shape_texts
from experiments.job.spec import AnyJob


class CheckpointsForPods:
    """What is known here of checkpoints that pods can have. `shared` is the address of the store of artifacts
    that hosts share, None for none; `bucket` is the same where pods reach it, which they do not a folder."""

    def __init__(self, shared: str | None) -> None:
        self.bucket = shared if shared is not None and check_shared(shared)[0] == S3 else None
        self._there: set[str] = set()
        """Fingerprints of checkpoints that were seen in the bucket."""

    def shape_of(self, spec: AnyJob) -> dict[str, str]:
        """The files that go with the job: those of a checkpoint without weights, and else none.

        Raises `AutoinferError` for a folder with weights that the bucket lacks, and `ProviderUnreachable`
        where that does not answer.
        """
        folder = folder_to_bring(spec.model)
        shape = {} if folder is None else shape_texts(folder)
        if folder is not None and not shape and spec.model_fingerprint not in self._there:
            self._check(str(folder), spec.model_fingerprint)
        return shape

    def _check(self, folder: str, fingerprint: str) -> None:
        put = f"autoinfer artifacts put {folder}"
        if self.bucket is None:
            raise AutoinferError(
                f"The checkpoint {folder} is a folder of this machine, which a pod does not see.",
                f"Set AUTOINFER_ARTIFACTS to a bucket (s3://bucket/prefix), and put it there with: {put}",
            )
        try:
            found = SharedArtifacts(self.bucket).manifest(original_key(fingerprint).digest)
        except SharedUnreachable as error:
            raise ProviderUnreachable(error.message, error.hint) from None
        if found is None:
            raise AutoinferError(
                f"The checkpoint {folder} is not in {self.bucket}, from where pods fetch it.",
                f"Put it there with: {put}",
            )
        self._there.add(fingerprint)
