"""`soundsmooth inspect`: is every output row of a model the same function of its own input row?"""

import json
from math import prod
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from ..machine import check_memory, cores
from ..models.independence import Report, export_and_inspect
from ..models.load import from_factory, is_torch_module, named_factory
from ..models.onnx_file import OnnxModel
from .plain import line, shown

ADVICE = """Certificates of this model will say that independence is measured (rows are voted again, alone: that takes
time and a little of the radius) or, where that cannot be done, only checked; --require-proof refuses it. Usual causes:
a layer in training mode (export model.eval()), a batch size written into the graph (export with a dynamic batch axis),
state, several outputs, an operator without a rule. docs/independence.md says what can be proved."""


def run_inspect(model: str, shape: str | None, rows: int, weights: Path | None, as_json: bool) -> int:
    """Print what is proved of a model; 0 if its rows are proved to be independent, else 1."""
    report = _report(model, shape, rows, weights)
    if as_json:
        print(json.dumps({"model": model, **report.to_dict()}, ensure_ascii=False))
    else:
        _show(model, report)
    return 0 if report.proved else 1


def _report(model: str, shape: str | None, rows: int, weights: Path | None) -> Report:
    """Of the graph that runs: onnxruntime's, after its optimizer, or the one that torch exports."""
    if Path(model).suffix.lower() == ".onnx":
        if shape is not None or weights is not None:
            raise ValueError("an ONNX file knows its shape and its weights: leave --shape and --weights out")
        return OnnxModel(model, threads=cores()).report
    module = from_factory(named_factory(model, weights))
    if not is_torch_module(module):
        raise ValueError(f"{model!r} makes no torch.nn.Module; only graphs can be inspected")
    if shape is None:
        raise ValueError("a torch module needs the shape of one input: --shape 3,32,32")
    sizes = _sizes(rows, shape)
    check_memory(4 * prod(sizes), f"a batch of {rows} inputs of shape {shape}", "is --shape that of one input?")
    import torch

    return export_and_inspect(module.eval(), torch.zeros(sizes))[1]  # type: ignore[attr-defined]


def _sizes(rows: int, shape: str) -> tuple[int, ...]:
    try:
        sizes = (rows, *(int(size) for size in shape.split(",")))
    except ValueError:
        raise ValueError(f"the shape is integers with commas, as 3,32,32, not {shape!r}") from None
    if min(sizes) < 1:
        raise ValueError("the shape and the number of rows must be positive")
    return sizes


def _show(model: str, report: Report) -> None:
    console = Console()
    verdict = "[green]proved[/]" if report.proved else "[red]not proved[/]"
    line(console, f"{escape(shown(model))}: {verdict}")
    line(console, f"  {escape(shown(report.reason))}")
    if report.operators:
        listed = ", ".join(f"{name} × {count}" for name, count in sorted(report.operators.items()))
        line(console, f"[dim]  {report.nodes} nodes: {escape(shown(listed))}[/]")
    if not report.proved:
        line(console, f"[yellow]{escape(ADVICE)}[/]")
