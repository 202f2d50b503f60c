"""A run is continued under other terms than it was begun under: how they differ, and what to add to go on."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from ..certification.goal import GOAL_OPTIONS
from ..certification.promise import Promise
from ..certification.settings import usual_bound
from ..certification.stop_rule import DEFAULT_PATIENCE
from ..core.grid import Grid
from ..models.registry import KINDS
from .stored import RunTerms

_MEANING = {
    "model": "the model changed, its SHA-256",
    "inputs": "the data changed (images, labels or their order), their SHA-256",
    "seed": "the seed's SHA-256",
    "given": "the floats as given, their SHA-256",
    "skip_wrong": "images with a wrong selected class",
    "go on": "the rule when to stop, its SHA-256",
}
#: Lines of a promise that follow from other lines and from the options that say when to stop.
_FOLLOWING = ("looks", "radii", "go on", "group")
#: What is said by an option's value instead.
_SAID_BY_OPTIONS = (*_FOLLOWING, "wrong labels")
#: What is taken if the option is left out.
_WITHOUT = {"patience": f"{DEFAULT_PATIENCE:.0f}", "looks": "the usual ones"}
#: Of what is longer, the end is left out.
MOST_SHOWN = 60
#: Options that the command line has and Python has not.
_OF_THE_COMMAND = ("no_votes",)


class OtherTermsError(ValueError):
    """A run that has begun cannot change. `begun_with` has the options that would make the terms those of the run; None
    or False for those that are to be left out.
    """

    def __init__(self, said: str, begun_with: dict[str, Any]) -> None:
        in_python = {name: value for name, value in begun_with.items() if name not in _OF_THE_COMMAND}
        super().__init__(said + how_to_continue(in_python, _keyword, str))
        self.said, self.begun_with = said, begun_with


def _keyword(name: str, value: object) -> str:
    return f"{name}={value!r}"


def how_to_continue(
    begun_with: Mapping[str, Any], written: Callable[[str, Any], str], named: Callable[[str], str]
) -> str:
    """What to add and what to leave out, in the words of Python or of the command line."""
    added = " ".join(written(name, value) for name, value in begun_with.items() if value not in (None, False))
    left = " ".join(named(name) for name, value in begun_with.items() if value in (None, False))
    parts = [f"add {added}" if added else "", f"leave out {left}" if left else ""]
    advice = " and ".join(part for part in parts if part)
    return f". To continue it: {advice}" if advice else ""


def check_same_terms(run: str, begun: RunTerms, asked: RunTerms) -> None:
    """An OtherTermsError that names the differences, and the options for those that an option sets."""
    found = differences(begun, asked)
    if found:
        said = (
            f"{run!r} was begun under other terms, and a run that has begun cannot change; "
            f"begun -> asked: {'; '.join(found)}"
        )
        raise OtherTermsError(said, options_to_add(begun, asked))


#: A line or an option by its name, as it was begun and as it is asked.
Pair = tuple[str, str, str]


def differences(begun: RunTerms, asked: RunTerms) -> list[str]:
    """Where two runs' terms differ, field by field. What follows from a difference is not said beside it."""
    before, after = dict(begun.promise.values), dict(asked.promise.values)
    pairs = [*_promised(begun, asked), *_beside_the_promise(begun, asked)]
    if all(old == new for _, old, new in pairs):
        pairs = [(name, _digest(before.get(name)), _digest(after.get(name))) for name in _FOLLOWING]
    return [f"{_MEANING.get(name, name)}: {_short(old)} -> {_short(new)}" for name, old, new in pairs if old != new]


def _promised(begun: RunTerms, asked: RunTerms) -> list[Pair]:
    """The lines of both promises that no option says."""
    before, after = begun.promise.values, asked.promise.values
    lines = {name: (before.get(name, "none"), after.get(name, "none")) for name in {**before, **after}}
    lines["flags"] = _other_flags(*lines["flags"])
    if _usual_bound(begun) and _usual_bound(asked):
        del lines["bound"]
    return [(name, *both) for name, both in lines.items() if name not in _SAID_BY_OPTIONS]


def _beside_the_promise(begun: RunTerms, asked: RunTerms) -> Iterator[Pair]:
    """What else the terms fix, and the options that say when to stop."""
    yield "nonce", begun.secret.nonce.hex() or "none", asked.secret.nonce.hex() or "none"
    if begun.promise == asked.promise:
        yield "block", str(begun.block), str(asked.block)
    else:
        named = [name for name in GOAL_OPTIONS if name in {**begun.asked, **asked.asked}]
        yield from ((name, _chosen(begun, name), _chosen(asked, name)) for name in named)
    yield "votes", votes_word(begun.votes), votes_word(asked.votes)


def _other_flags(old: str, new: str) -> tuple[str, str]:
    """Of two lines of flags those that are not in both; the whole lines if their order is all that differs."""
    before, after = old.split(), new.split()
    if set(before) == set(after):
        return old, new
    gone, added = [flag for flag in before if flag not in after], [flag for flag in after if flag not in before]
    return " ".join(gone) or "none", " ".join(added) or "none"


def _usual_bound(terms: RunTerms) -> bool:
    """Whether the bound is the one that is taken if none is named."""
    promise = terms.promise
    return promise.values["bound"] == usual_bound("radii" in promise.values, promise.independence.proved)


def _chosen(terms: RunTerms, name: str) -> str:
    """An option that says when to stop, as it was chosen, or what is taken without it."""
    if name == "skip_wrong":
        return "skipped" if name in terms.asked else "voted on"
    return str(terms.asked.get(name, _WITHOUT.get(name, "none")))


def _digest(line: str | None) -> str:
    return "none" if line is None else hashlib.sha256(line.encode("ascii")).hexdigest()


def options_to_add(begun: RunTerms, asked: RunTerms) -> dict[str, Any]:
    """The options whose values make the asked terms those of the run, as far as an option sets them.

    Without a seed and a nonce, those of the run are used.
    """
    old, new = _options(begun), _options(asked)
    if _usual_bound(begun) and _usual_bound(asked):
        del old["bound"], new["bound"]
    found = {name: old.get(name) for name in {**old, **new} if old.get(name) != new.get(name)}
    secret = {"seed": begun.secret.seed != asked.secret.seed, "nonce": begun.secret.nonce != asked.secret.nonce}
    return found | {name: None for name, differs in secret.items() if differs}


def _options(terms: RunTerms) -> dict[str, Any]:
    """What a promise says in the words of options. For the model they are those by which it is made again."""
    promise, found = terms.promise, dict[str, Any]()
    values, flags = promise.values, promise.flags
    found |= {name: values[name] for name in ("sigma", "alpha", "bound", "noise")}
    found |= {name: int(values[name]) for name in ("n0", "n")}
    found |= {"k": _clamp(promise), "limit": int(values["input count"]), "batch_size": int(values["batch"])}
    found |= {"device": "cpu" if values["device"] == "cpu" else "cuda"}
    if "threads" in flags:
        found["threads"] = int(flags["threads"])
    if values["model kind"] in KINDS:
        found |= KINDS[values["model kind"]].options(values, flags)
    found |= {"independence": promise.independence.kind, "again": promise.independence.rows}
    found["no_votes"] = not terms.votes
    return found | terms.asked


def _clamp(promise: Promise) -> str:
    """k, from the margin K in levels."""
    return str(Fraction(int(promise.values["margin"]), Grid.of_text(promise.values["grid"]).q))


def votes_word(kept: bool) -> str:
    return "kept" if kept else "left out"


def _short(value: str) -> str:
    """Digests by their first digits, and no long lists."""
    if len(value) <= MOST_SHOWN:
        return value
    return f"{value[:12]}…" if len(value) == 64 else f"{value[:MOST_SHOWN]}…"
