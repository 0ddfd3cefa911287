"""The sheet of an artifact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cli.console.output import console, fields, when
from cli.console.words import configuration_words
from configs.quantities import format_duration
from knowledge.figures import size

if TYPE_CHECKING:
    from knowledge.queries.artifacts import ArtifactDetail


def print_artifact(artifact: ArtifactDetail) -> None:
    """Print everything about an artifact."""
    out = console()
    out.print(f"A-{artifact.digest}")
    out.print(
        fields(
            [
                ("kind", artifact.kind),
                ("size", size(artifact.bytes)),
                ("built in", format_duration(artifact.build_s)),
                ("built", when(artifact.created_at)),
                ("last used", when(artifact.last_used_at)),
                ("path", artifact.path),
                ("tools", configuration_words(artifact.tool_versions)),
                ("used by", ", ".join(artifact.experiments)),
                ("inputs", json.dumps(artifact.inputs, ensure_ascii=False, sort_keys=True)),
            ]
        )
    )
