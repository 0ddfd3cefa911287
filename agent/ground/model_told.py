"""What is wrong with the name of a model, told where its target is not there either."""

from __future__ import annotations

from agent.ground.checkpoint import check_there
from agent.ground.shape import PROFILE_FILES
from configs.catalog import Kind, packaged_names
from configs.errors import AutoinferError, UsageError


def with_the_model(missing: AutoinferError, model: str, *, shapes: bool) -> AutoinferError:
    """The refusal of a target that is not there, after that of the model where what it is called names none:
    whoever mends the one would meet the other next. `shapes`: a packaged shape or a profile's file is one.

    The hub is asked whether it shows a model of that name; where it does not answer nothing is said of it.
    """
    if shapes and (model in packaged_names(Kind.MODELS) or model.endswith(PROFILE_FILES)):
        return missing
    try:
        check_there(model)
    except UsageError as wrong:
        hint = f"{wrong.hint}\n  {missing.hint}"
        return AutoinferError(f"{wrong.message} {missing.message}", hint, wrong.exit_code)
    return missing
