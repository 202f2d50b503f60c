"""What is known of all torch models: what their promises may say, and how such a model is made again from that."""

from collections.abc import Mapping
from typing import Any

from .compiled import PROMISED, TUNED
from .outputs import flagged_output, is_output_flag
from .protocol import CLOSED, OPEN, ModelKind
from .torch_flags import BOOLEAN, FLAGS

#: In the promise, where the graph that votes is not the exported one.
SHORTENED = "shortened"
#: In the promise, where a graph votes in the module's place.
GRAPH = "exported-graph"


def is_artifact_flag(value: str) -> bool:
    """An artifact is promised by its SHA-256."""
    return len(value) == 64 and set(value) <= set("0123456789abcdef")


def promised_options(promised: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": promised["precision"], "compile": flags.get("compile", "none")}
    options["channels_last"] = flags.get("layout") == "channels_last"
    if flags.get("runs") == "module":  # then the module voted itself, not a graph that was made of it
        options["independence"] = "assumed"
    if "output" in flags:
        options["output"] = flagged_output(flags["output"])
    return options


TORCH_KIND = ModelKind(
    "torch",
    flags={
        **{name: flag.values for name, flag in FLAGS.items()},
        "artifact": is_artifact_flag,
        "autocast": BOOLEAN,
        "layout": ("contiguous", "channels_last"),
        "compile": PROMISED,
        "digest": (CLOSED, OPEN),
        "graph": (SHORTENED,),
        "output": is_output_flag,
        "runs": ("module", GRAPH),
        "threads": None,
    },
    optional=("artifact", "compile", "digest", "graph", "output", "runs"),
    with_others={"artifact": ("compile", TUNED)},
    only_with={"artifact": ("runs", GRAPH), "graph": ("runs", GRAPH)},
    devices=None,  # the name of the GPU
    software=("torch", "triton"),
    options=promised_options,
)
