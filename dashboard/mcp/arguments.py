"""Arguments that several tools share, with what a client is told of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

LABEL_LENGTH = 32

Campaign = Annotated[
    str | None,
    Field(description="A campaign's label, such as C-1; the newest if not given.", max_length=LABEL_LENGTH),
]
OneCampaign = Annotated[
    str | None, Field(description="Only this campaign (C-1); all if not given.", max_length=LABEL_LENGTH)
]
Limit = Annotated[int, Field(description="The most rows to answer.", ge=1, le=50)]
Offset = Annotated[
    int, Field(description="Rows to pass over: next_offset of the answer before.", ge=0, le=10**9)
]
Lever = Annotated[
    str | None, Field(description="Only this lever, such as compile; see the tool space.", max_length=200)
]
Search = Annotated[
    str | None, Field(description="Text in the claim, the rationale or the reason; a label.", max_length=200)
]
Hypothesis = Annotated[str, Field(description="A hypothesis' label, such as H-021.", max_length=LABEL_LENGTH)]
Experiment = Annotated[
    str, Field(description="An experiment's label, such as E-0003.", max_length=LABEL_LENGTH)
]
Finding = Annotated[str, Field(description="A finding's label, such as F-002.", max_length=LABEL_LENGTH)]
Evident = Annotated[
    str,
    Field(description="The label of a hypothesis, an experiment or a finding.", max_length=LABEL_LENGTH),
]
Assignments = Annotated[
    list[Annotated[str, Field(max_length=500)]],
    Field(
        description="The change as KNOB=VALUE each; knobs and values are those of the tool space.",
        max_length=64,
    ),
]
Expect = Annotated[
    str | None,
    Field(
        description="The predicted effect with its spread (one standard deviation), such as tpot=-10%±4%: "
        "10 % less time per output token. The surrogate's prediction if not given.",
        max_length=40,
    ),
]
MinEffect = Annotated[
    str | None,
    Field(
        description="The smallest effect worth having, such as 3%; the campaign's if not given.",
        max_length=20,
    ),
]
Claim = Annotated[
    str, Field(description="The falsifiable claim, in one sentence.", min_length=1, max_length=500)
]
