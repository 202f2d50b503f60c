"""Model and data against the promise: is what the auditor was given what was committed to?"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..grid import Grid
from ..models import Identity
from ..models.protocol import rows_again
from ..promise import Inputs, Promise
from ..runs.engine import Run, Smoothing
from ..runs.store import Terms
from ..smoother import Smoother
from .findings import Check


def grid_of(promise: Promise) -> Grid:
    """The promised grid: "levels=256 q=255 offset=0".

    Guarantee: the promise has the grid's own text, and can be read in one way only.
    """
    try:
        held = dict(word.split("=") for word in promise.values["grid"].split(" "))
        if "e" in held["offset"].lower():  # 1e999999999 would take for ever
            raise ValueError("write the offset as a quotient")
        grid = Grid(int(held["levels"]), int(held["q"]), Fraction(held["offset"]))
        if grid.text != promise.values["grid"]:
            raise ValueError(f"it would be written {grid.text!r}")
        return grid
    except (ValueError, KeyError, ZeroDivisionError) as error:
        raise ValueError(f"the promised grid cannot be read: {promise.values['grid']!r} ({error})") from None


def shape_of(promise: Promise) -> tuple[int, ...]:
    """The promised shape of one input: "3 32 32"."""
    try:
        return tuple(int(size) for size in promise.values["input shape"].split())
    except ValueError:
        raise ValueError(f"the promised shape cannot be read: {promise.values['input shape']!r}") from None


def promised_smoothing(model: Any, promise: Promise, options: Mapping[str, Any]) -> Smoothing:
    """The model under the promised noise, in the promised batches; threads and precision too, unless given."""
    values, grid = promise.values, grid_of(promise)
    flags = flags_of(promise)
    filled: dict[str, Any] = {"threads": int(flags["threads"])} if flags.get("threads", "").isdecimal() else {}
    if values["model kind"] == "torch":
        filled |= {"dtype": values["precision"], "channels_last": flags.get("layout") == "channels_last"}
        filled |= {"compile": flags.get("compile", "none")}
        if flags.get("runs") == "module":  # then the module voted itself, not a graph that was made of it
            filled |= {"independence": "assumed"}
    if values["model kind"] == "onnx" and flags.get("isolated") == "yes":
        filled |= {"untrusted": True}
    if (again := rows_again(values["independence"])) is not None:
        filled |= {"independence": "measured", "again": again}
    k = Fraction(values["margin"]) / grid.q
    chosen = {**filled, **options}
    return Smoother(
        model, values["sigma"], k=k, grid=grid, batch_size=int(values["batch"]), workers=1, **chosen
    ).smoothing


def flags_of(promise: Promise) -> dict[str, str]:
    """The promised kernel flags: "name=value name=value", or "none"."""
    words = [word.partition("=") for word in promise.values["flags"].split(" ")]
    return {name: value for name, equals, value in words if equals}


def model_checks(identity: Identity, promise: Promise) -> list[Check]:
    """Kind, digest and precision must be the promised ones; the machine may be another, and then it is said."""
    values = promise.values
    if (identity.kind, identity.digest) != (values["model kind"], values["model"]):
        text = (
            f"this is not the promised model: {identity.kind} with SHA-256 {identity.digest}, "
            f"promised {values['model kind']} with {values['model']}"
        )
        return [Check("model", False, text)]
    binding = "a graph, fixed by its digest" if identity.kind == "onnx" else "Python code: not binding, assumed honest"
    checks = [Check("model", True, f"the promised one ({binding})")]
    if identity.precision != values["precision"]:
        text = f"this model computes in {identity.precision}, promised was {values['precision']}"
        checks.append(Check("precision", False, text))
    checks.append(_independence(identity, values["independence"]))
    differ = machine_differences(identity, promise)
    text = f"another kind than promised ({'; '.join(differ)}): near-ties may break differently"
    checks.append(Check("machine", None if differ else True, text if differ else f"{identity.device}, as promised"))
    return checks


def _independence(identity: Identity, promised: str) -> Check:
    """A proof must be found here as well; what is only assumed is said to be."""
    if promised == "proved":
        found = identity.independence == "proved"
        text = "proved here as well" if found else f"promised as proved, but {identity.independence} here"
        return Check("independence", found, f"of a batch's rows and of calls: {text}")
    if rows_again(promised) is not None:
        text = f"{promised}: as far as rows of drawn blocks are voted again, alone"
        return Check("independence", None, f"of a batch's rows and of calls: {text}")
    return Check("independence", None, f"of a batch's rows and of calls: {promised}, not proved")


def machine_differences(identity: Identity, promise: Promise) -> list[str]:
    """Where the machine at hand is not the promised one: kind of device, kernel flags.

    Which process runs a graph does not change its votes, so that is no difference, and no excuse for one.
    """
    promised = {"device": promise.values["device"], **flags_of(promise)}
    here = {"device": identity.device, **identity.flags}
    names = sorted((promised.keys() | here.keys()) - {"isolated"})
    return [
        f"{name} {promised.get(name, 'none')} -> {here.get(name, 'none')}"
        for name in names
        if promised.get(name) != here.get(name)
    ]


def promised_inputs(whole: Inputs, numbers: list[int], truths: list[int | None]) -> Inputs:
    """The images that the run names, from the auditor's data, with the labels that the run states."""
    if max(numbers) >= len(whole.levels):
        raise ValueError(f"the data has {len(whole.levels)} images, but the run has image {max(numbers)}")
    return Inputs(tuple(numbers), tuple(whole.levels[number] for number in numbers), tuple(truths))


def data_check(whole: Inputs, inputs: Inputs, promise: Promise) -> Check:
    """Guarantee: passes only if numbers, levels and labels are, in this order, those that were promised."""
    theirs = [whole.labels[number] for number in inputs.indices]
    shape = " ".join(map(str, inputs.shape))
    if shape != promise.values["input shape"]:
        return Check("data", False, f"the images have shape {shape}, promised was {promise.values['input shape']}")
    if inputs.digest() != promise.values["inputs"]:
        return Check("data", False, "these are not the promised images and labels in the promised order (SHA-256)")
    if any(truth is not None and truth != label for truth, label in zip(inputs.labels, theirs, strict=True)):
        return Check("data", False, "the promised labels are not those of this data")
    return Check("data", True, f"the {len(theirs)} promised images and labels, in the promised order")


def promised_run(terms: Terms, smoothing: Smoothing, identity: Identity, inputs: Inputs) -> Run:
    """The run as it was promised, on this machine: the stored promise gives the key."""
    settings = terms.settings
    smoothing.check(inputs.shape, inputs.levels[0].size, max(settings.n, settings.n0))
    return Run(smoothing, identity, inputs, settings, terms.secret, terms.promise, {})
