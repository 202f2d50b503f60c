"""`soundsmooth inspect`: is every output row of a model the same function of its own input row?"""

import json
from math import prod
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ..core.machine import check_memory, cores
from ..independence.proof import ProofReport, export_module, prove_torch
from ..independence.proof.advice import advice_for
from ..independence.proof.report import not_proved
from ..models.isolated import IsolatedOnnxModel
from ..models.model_source import is_torch_module, named_factory
from ..models.onnx_file import OnnxModel
from ..models.outputs import Output
from ..models.sandbox.process import RuntimeDied
from ..models.wrappers import is_exported, plain_copy
from .plain import print_line, printable

CONSEQUENCE = """Certificates of this model will say that independence is measured (rows are voted again, alone: that
takes time and a little of the radius) or, where that cannot be done, only checked; --require-proof refuses it."""


def run_inspect(
    model: str, shape: str | None, rows: int, weights: Path | None, output: Output, as_json: bool, trusted: bool
) -> int:
    """Print what is proved of a model; 0 if its rows are proved to be independent, else 1."""
    if Path(model).suffix.lower() == ".onnx":
        report = _of_graph(model, shape, rows, weights, output, trusted)
    else:
        report = _of_module(model, shape, rows, weights, output)
    if as_json:
        print(json.dumps({"model": model, **report.to_dict()}, ensure_ascii=False))
    else:
        _show(model, report)
    return 0 if report.proved else 1


def _of_graph(
    model: str, shape: str | None, rows: int, weights: Path | None, output: Output, trusted: bool
) -> ProofReport:
    """Of the graph that onnxruntime runs, after its optimizer; in a confined process, unless the file is trusted."""
    if weights is not None:
        raise ValueError("an ONNX file holds its weights: leave --weights out")
    try:
        made = (OnnxModel if trusted else IsolatedOnnxModel)(model, threads=cores(), output=output)
        if made.shape is not None and shape is not None:
            raise ValueError("this ONNX file knows the shape of its input: leave --shape out")
        sizes = made.shape if shape is None else _sizes(shape)
        if sizes is None:
            raise ValueError("the graph leaves the shape of its input open: give one with --shape 3,32,32")
        made.prepare(sizes, made.batch or rows)
    except RuntimeDied as error:
        return not_proved(str(error), rows)
    assert made.report is not None
    return made.report


def _of_module(model: str, shape: str | None, rows: int, weights: Path | None, output: Output) -> ProofReport:
    """Of the graph that torch exports."""
    module = named_factory(model, weights).make()
    if not (is_torch_module(module) or is_exported(module)):
        raise ValueError(f"{model!r} makes no torch.nn.Module; only graphs can be inspected")
    if shape is None:
        raise ValueError("a torch module needs the shape of one input: --shape 3,32,32")
    sizes = (rows, *_sizes(shape))
    check_memory(4 * prod(sizes), f"a batch of {rows} inputs of shape {shape}", "is --shape that of one input?")
    import torch

    from ..models.torch_scores import Scoring

    example, scoring = torch.full(sizes, 0.5), Scoring(plain_copy(module), output).eval()
    _check_output(scoring, example)
    return prove_torch(export_module(scoring, example), example)


def _check_output(scoring: Any, example: Any) -> None:
    """A ValueError of a module that votes in no way, proved or not: one with several outputs, say."""
    import torch

    from ..models.torch_scores import count_classes

    with torch.inference_mode():
        try:
            count_classes(scoring(example), len(example))
        except ValueError:
            raise
        except Exception:  # it is their code: anything can happen, and the export says what
            return


def _sizes(shape: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in shape.split(","))
    except ValueError:
        raise ValueError(f"the shape is integers with commas, as 3,32,32, not {shape!r}") from None
    if min(sizes) < 1:
        raise ValueError("the sizes in --shape must be positive")
    return sizes


def _show(model: str, report: ProofReport) -> None:
    console = Console()
    verdict = "[green]proved[/]" if report.proved else "[red]not proved[/]"
    print_line(console, f"{escape(printable(model))}: {verdict}")
    print_line(console, f"  {escape(printable(report.reason))}")
    if report.operators:
        listed = ", ".join(f"{name} × {count}" for name, count in sorted(report.operators.items()))
        print_line(console, f"[dim]  {report.nodes} nodes: {escape(printable(listed))}[/]")
    if not report.proved:
        print_line(console, f"[yellow]{escape(_what_to_do(report.reason))}[/]")


def _what_to_do(reason: str) -> str:
    """What follows from a missing proof, and what would give one, as far as its reason tells."""
    advice = advice_for(reason)
    way_out = "" if advice is None else f" For a proof: {advice}."
    return f"{CONSEQUENCE}{way_out} docs/independence.md says what can be proved."
