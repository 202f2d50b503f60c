"""`soundsmooth commit`: the promise and its commitment, before any coin is tossed."""

import sys
from pathlib import Path

from rich.console import Console

from ..certification.promise import secret
from ..models.compiled import TUNED
from ..runs.artifact_file import keep_artifact
from ..runs.output import check_new_file
from ..runs.plan import plan_run
from .options import Choices
from .prepare import chosen_settings, pool_and_images


def print_promise(choices: Choices) -> None:
    """The promise's text on standard output or in a file, exactly as it is hashed, and C on standard error."""
    out: Path | None = choices.given("out")  # in a configuration file it is where certify writes
    if out is not None:
        check_new_file(out, (".txt",))
    if choices.get("seed") is None:
        raise ValueError(
            "commit needs a --seed, and certify the same one: for example 64 digits of openssl rand -hex 32"
        )
    kept = choices.path("artifact")
    if kept is None and choices.get("compile") == TUNED:
        raise ValueError("commit needs --artifact with --compile tuned: certify has to vote with the same kernels")
    chosen, hidden = chosen_settings(choices), secret(choices.get("seed"))
    with pool_and_images(choices, None) as (pool, images):
        plan = plan_run(pool, images, chosen, hidden, bool(choices.get("allow_mixed")), try_rows=False)
    promise = plan.promise
    if plan.survey.artifact is not None and kept is not None:
        keep_artifact(kept, plan.survey.artifact)
    text = promise.text.encode("ascii")  # bytes: a system's own line ends would change the hash
    if out is None:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    else:
        out.write_bytes(text)
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"commitment {promise.commitment}")
