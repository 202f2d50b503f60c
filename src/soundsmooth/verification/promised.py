"""Model and data against the promise: is what the auditor was given what was committed to?"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..audit import pays, read_terms
from ..certification.promise import Inputs, Promise, is_digest
from ..certification.settings import promised_settings
from ..core.grid import IMAGES, Grid
from ..core.independence import Independence
from ..core.limits import thread_count
from ..core.machine import PRECISIONS
from ..data.load import AllImages
from ..models import Identity
from ..models.compiled import TUNED
from ..models.protocol import FlagValues, ModelKind, open_ends_text
from ..models.registry import KINDS, digest_binds
from ..noise.law import promised_law
from ..runs.stored import whole
from ..runs.worker import MIXED
from ..smoother import Smoother
from ..smoothing.classifier import Smoothing, voting_batch
from .result import Check


def grid_of(promise: Promise) -> Grid:
    """The promised grid: "levels=256 q=255 offset=0"."""
    return Grid.of_text(promise.values["grid"])


def unit_check(promise: Promise) -> Check:
    """In what unit radii are: that of the values that inputs have on the promised grid.

    It passes for the usual one, images with values in [0, 1]. What another one means, only the task can say.
    """
    try:
        grid = grid_of(promise)
    except ValueError as error:
        return Check("unit", False, str(error))
    values = f"radii are for values in {grid.range}: {grid.levels} levels, {Fraction(1, grid.q)} apart"
    if grid == IMAGES:
        return Check("unit", True, values)
    return Check("unit", None, f"{values}. Is that the task's grid? For values in [0, 1] divide radii by {grid.width}")


def check_promise(promise: Promise) -> None:
    """A ValueError unless all numbers, digests and names in it are such, and can be read in one way only: under another
    promise nothing is claimed.
    """
    values = promise.values
    read_terms(values)  # numbers that can be computed with, before anything else reads them
    for name in ("n0", "n", "input count", "margin", "batch"):
        whole(values[name], name)
    for name in ("inputs", "model"):
        if not is_digest(values[name]):
            raise ValueError(f"the promised {name} is no digest of 32 bytes in hexadecimal: {values[name]!r:.80}")
    shape_of(promise)
    check_words(values)
    try:
        promised_settings(values)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"the promise cannot be kept: {error}") from None


def check_words(values: Mapping[str, str]) -> None:
    """A ValueError for a precision, a device or flags that no version of this program promises.

    Guarantee: if it returns, the flags are those of the kind of model, each once and with a value that it can have. So
    an issuer has no words of his own with which every machine is another one, and every difference excused.
    """
    if values["precision"] not in PRECISIONS:
        raise ValueError(f"the promised precision is none that this version knows: {values['precision']!r:.80}")
    kind = KINDS.get(values["model kind"])
    if kind is not None and kind.devices is not None and values["device"] not in (*kind.devices, MIXED):
        raise ValueError(f"the promised device is none that this version knows: {values['device']!r:.80}")
    names = _check_values({} if kind is None else kind.flags, values["flags"])
    missing = [] if kind is None else [name for name in kind.flags if name not in (*names, *kind.optional)]
    if missing:
        raise ValueError(f"the promise does not have all flags of its kind of model: {', '.join(missing)} missing")
    if kind is not None:
        _check_together(kind, Promise(values).flags)
    if names != sorted(set(names)):
        raise ValueError(
            f"the promised flags are not each there once, in the order of their names: {values['flags']!r:.80}"
        )


def _check_together(kind: ModelKind, flags: Mapping[str, str]) -> None:
    """A ValueError for a flag without another that it goes with."""
    for name, (other, value) in kind.with_others.items():
        if (name in flags) != (flags.get(other) == value):
            raise ValueError(f"the promise has the flag {name} without {other}={value}, or the other way round")
    for name, (other, value) in kind.only_with.items():
        if name in flags and flags.get(other) != value:
            raise ValueError(f"the promise has the flag {name} without {other}={value}")


def _check_values(known: FlagValues, text: str) -> list[str]:
    """The names of the promised flags; a ValueError for a value that none of this kind of model has."""
    names = []
    for word in [] if text == "none" else text.split(" "):
        name, _, value = word.partition("=")
        allowed = known.get(name, ())
        if allowed is None:
            whole(value, name)
        elif not (allowed(value) if callable(allowed) else value in allowed):
            raise ValueError(f"the promise has a flag that this version does not know: {word!r:.80}")
        names.append(name)
    return names


def shape_of(promise: Promise) -> tuple[int, ...]:
    """The promised shape of one input: "3 32 32".

    Guarantee: sizes are positive, and the promise can be read in one way only.
    """
    text = promise.values["input shape"]
    try:
        shape = tuple(int(size) for size in text.split())
        if min(shape, default=1) < 1 or " ".join(map(str, shape)) != text:
            raise ValueError
        return shape
    except ValueError:
        raise ValueError(f"the promised shape cannot be read: {text!r:.80}; it is positive sizes, as 3 32 32") from None


def threads_of(promise: Promise) -> int | None:
    """How many threads are promised for the model, if it says so; a ValueError for a number that is never started."""
    text = promise.flags.get("threads")
    if text is None:
        return None
    try:
        return thread_count(int(text[:20]))
    except ValueError as error:
        raise ValueError(
            f"the promised threads={text:.80} cannot be used ({error}); to vote with a number of your own: --threads 1"
        ) from None


def promised_smoothing(
    model: Any, promise: Promise, options: Mapping[str, Any], artifact: bytes | None = None
) -> Smoothing:
    """The model under the promised noise, in the promised batches; threads and precision too, unless given.

    Tuned kernels are code: they vote if the `artifact` that the promise names is given, and else the model as it is.
    A ValueError if they are for batches of another shape: then they would not vote, and nobody would know.
    """
    values = promise.values
    filled: dict[str, Any] = {} if "threads" in options else {"threads": threads_of(promise)}
    if values["model kind"] in KINDS:
        filled |= KINDS[values["model kind"]].options(values, promise.flags)
    if (again := promise.independence.rows) is not None:
        filled |= {"independence": "measured", "again": again}
    chosen = {**filled, **options}
    if chosen.get("compile") == TUNED:
        chosen["compile"] = "none"
    made = Smoother(model, law=promised_law(values), batch_size=int(values["batch"]), workers=1, **chosen).smoothing
    if artifact is not None:
        made.model.run_as(TUNED, artifact)
        rows = voting_batch(made.model, int(values["batch"]), promised_settings(values))
        made.model.settle(shape_of(promise), [rows], 0)
    return made


def model_checks(identity: Identity, promise: Promise) -> list[Check]:
    """Kind, digest and precision must be the promised ones; the machine may be another, and then it is said."""
    values = promise.values
    checks = [_model(identity, promise)]
    if not checks[0].passed:
        return checks
    if identity.precision != values["precision"]:
        text = f"this model computes in {identity.precision}, promised was {values['precision']}"
        checks.append(Check("precision", False, text))
    checks.append(_independence(identity, promise.independence))
    differ = machine_differences(identity, promise)
    text = f"another kind than promised ({'; '.join(differ)}): near-ties may break differently"
    checks.append(Check("machine", None if differ else True, text if differ else f"{identity.device}, as promised"))
    return checks


def _model(identity: Identity, promise: Promise) -> Check:
    """The promised kind and digest: of Python code the second digest, or the first if no other is promised."""
    values, flag = promise.values, promise.flags.get("digest")
    digest = identity.digest if flag or identity.first_digest is None else identity.first_digest
    if (identity.kind, digest) != (values["model kind"], values["model"]):
        text = (
            f"this is not the promised model: {identity.kind} with SHA-256 {digest}, "
            f"promised {values['model kind']} with {values['model']}"
        )
        return Check("model", False, text)
    if flag is not None and flag != identity.digest_flag:
        return Check("model", False, f"promised as digest={flag}, but it is digest={identity.digest_flag}")
    return Check("model", True, f"the promised one ({_binding(identity, flag)})")


def _binding(identity: Identity, flag: str | None) -> str:
    if digest_binds(identity.kind):
        return "a graph, fixed by its digest"
    if flag is None:
        return "Python code: not binding, assumed honest; by its first digest, without attributes, hooks and helpers"
    rest = f"not fixed by it: {open_ends_text(identity.open_ends)}" if identity.open_ends else "with what it holds"
    return f"Python code: assumed honest; by its second digest, {rest}"


def _independence(identity: Identity, promised: Independence) -> Check:
    """A proof must be found here as well; what is only assumed is said to be."""
    found, text = None, f"{promised}, not proved"
    if promised.measured:
        text = f"{promised}: as far as rows of drawn blocks are voted again, alone"
    elif promised.proved:
        found = identity.independence.proved
        here = f"promised as proved, but {identity.independence} here"
        text = "proved here as well, by argument and witness" if found else here
    return Check("independence", found, f"of a batch's rows and of calls: {text}")


def machine_differences(identity: Identity, promise: Promise) -> list[str]:
    """Where the machine at hand is not the promised one: kind of device, kernel flags.

    Which process runs a graph does not change its votes, nor does the digest by which a model is named; and the output
    that votes is the promised one, whatever it is called here. So these are no differences, and no excuse for one.
    """
    promised = {"device": promise.values["device"], **promise.flags}
    here = {"device": identity.device, **identity.flags}
    if "artifact" in promised and "artifact" not in here:
        del promised["artifact"], promised["compile"], here["compile"]
        return [*_differences(promised, here), "tuned kernels -> none, as --trust-artifact was not given"]
    return _differences(promised, here)


def _differences(promised: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    names = sorted((promised.keys() | here.keys()) - {"isolated", "digest", "output"})
    return [
        f"{name} {promised.get(name, 'none')} -> {here.get(name, 'none')}"
        for name in names
        if promised.get(name) != here.get(name)
    ]


def named_images(whole: AllImages, numbers: list[int]) -> Inputs:
    """The images that the run names, from the auditor's data."""
    if max(numbers) >= len(whole):
        raise ValueError(f"the data has {len(whole)} images, but the run has image {max(numbers)}")
    return whole.pick(numbers)


def describe_missing(held: int, inputs: Inputs) -> str | None:
    """Which of the images that the auditor's data has the run does not have, in words; None if it has all."""
    missing = sorted(set(range(held)) - set(inputs.indices))
    if not missing:
        return None
    some = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
    return f"the run has {held - len(missing)} of the {held} images of the data, and says nothing of the others: {some}"


def data_check(theirs: Sequence[int | None], inputs: Inputs, promise: Promise) -> Check:
    """Guarantee: passes only if numbers, levels and labels are, in this order, those that were promised; and if these
    labels are the auditor's, which are `theirs`.
    """
    shape = " ".join(map(str, inputs.shape))
    if shape != promise.values["input shape"]:
        ask = "give --resize, --crop and --layout as for the run"
        return Check(
            "data", False, f"the images have shape {shape}, promised was {promise.values['input shape']}; {ask}"
        )
    if inputs.digest() != promise.values["inputs"]:
        return Check("data", False, "these are not the promised images and labels in the promised order (SHA-256)")
    if any(truth is not None and truth != label for truth, label in zip(inputs.labels, theirs, strict=True)):
        return Check("data", False, "the promised labels are not those of this data")
    if inputs.given(grid_of(promise)) != promise.values.get("given"):
        return Check("data", False, "these are the promised levels, but not the floats that were given (SHA-256)")
    return Check("data", True, f"the {len(theirs)} promised images and labels, in the promised order")


def distance_check(promise: Promise, paid: Mapping[int, float], inputs: Inputs | None) -> list[Check]:
    """Where floats were rounded to the grid: whether each radius pays what is due for these floats; nothing elsewhere.

    Guarantee: passes only if each price is at least ‖x − x′‖ + tolerance·√d, decided by the auditor's arithmetic.
    """
    rounding = read_terms(promise.values).rounding
    if rounding is None:
        return []
    if inputs is None:
        return [Check("distance", None, "floats were rounded to the grid; how far needs the data as given (--data)")]
    far = [Fraction(0) if each is None else each.squared for each in inputs.rounded or [None] * len(inputs.levels)]
    less = [inputs.indices[place] for place, price in paid.items() if not pays(price, far[place], rounding)]
    if less:
        return [Check("distance", False, f"image {less[0]} pays less than its floats are away from the grid")]
    text = f"all {len(paid)} radii pay for the distance of these floats from the grid, and for that of a prediction's"
    return [Check("distance", True, text)]
