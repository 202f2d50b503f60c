"""What becomes of a forgery: found, and by what; or not, and then why it does no harm."""

import dataclasses
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

import classifiers
from classifiers import brightness_of_three
from soundsmooth.cli.verify import show
from soundsmooth.runs.database import Database
from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs, Conclusion, Verification, audit_file
from verification.forgeries import Forgery, InapplicableError, forged_records, forged_runs, rows_of
from verification.issuer import (
    NONCE,
    Brightness,
    coined_run,
    ended,
    given,
    issue,
    looked_run,
    measured_run,
    motley,
    packed,
    small_run,
)

ALONE, NOTED, REPLAYED = "the file alone", "commitment, nonce", "model, data, replay"
SAME, WEAKER, OPEN = "same conclusion", "claims no more", "said to be unchecked"
#: Forgeries of the file, not of its rows.
REARRANGED = ("layout", "files beside it", "log")
FOUND = (ALONE, NOTED, REPLAYED)
OUTCOMES = (*FOUND, SAME, WEAKER, OPEN)

ABSTAINS = "a certificate less: no certificate, or an abstention, is a wrong answer"
NOTHING = "about an image that claims nothing: it is open, failed or abstains"
ENDED = "an image ended from outside, and said to be: one more stop, and the claim that is left is true"
#: Why a forgery that is not found does no harm, by how its kind begins. Whatever is not here must be found.
REASONS = {
    "a remark of the issuer: no statement rests on it": (
        "run: begun", "run: written", "row of run gone", "findings", "row of findings",
        "images.attempts", "images.error", "environments",
        "row of environments", "record: environment", "blocks.environment", "alone.environment",
        "certificates.environment",
    ),
    "a time: no statement rests on it": (
        "row of alone gone",  # computed anew it is the same row with another time
        "blocks.seconds", "alone.seconds", "certificates.seconds", "record: seconds",
    ),
    "who works on the run: no content": ("owners", "claims", "row of owners", "row of claims"),
    "the same rows in another file, or bytes that SQLite does not read": ("layout", "files beside it"),
    "a log that SQLite does not take, or one that changes remarks": ("log",),
    "the same bits, packed otherwise": ("blocks.hits", "alone.kept"),
    "a smaller claim than the votes allow: sound, and said to be unusual": (
        "certificates.p_lower", "certificates.p_upper", "certificates.radius", "smaller radius", "record: radius",
        "record: p_lower", "record: p_upper",
    ),
    "another price, with which the radius is still allowed: the radius is the claim": (
        "certificates.paid", "record: paid",
    ),
    "another number of lost rows, and no larger claim": ("record: measured.lost",),
    "the same votes in blocks of another size": ("run: block",),
    "the same votes without their bitmaps: a note says what a replay cannot tell then": ("run: votes",),
    "the same certificates in another order, or with other spaces": ("lines of the file",),
}  # fmt: skip
#: In certificates as JSON nothing can tell these; the check of this name is listed as not made.
UNCHECKED = {
    "index": "data", "truth": "data", "nonce": "nonce", "key": "nonce", "seed": "commitment", "promise": "commitment",
    "selection": "replay", "estimation": "replay", "measured": "replay", "paid": "distance",
}  # fmt: skip


@dataclass(frozen=True)
class Honest:
    """An honest file, and what its auditor has."""

    name: str
    path: Path
    scores: object = brightness_of_three
    images: int = 8
    near: bool = False
    """Whether its images are floats near the grid."""

    @property
    def records(self) -> bool:
        return self.path.suffix != ".db"

    def forgeries(self, chance: random.Random) -> Iterator[Forgery]:
        return (forged_records if self.records else forged_runs)(self.path, chance)


#: Small runs with every noise, bound and way to keep votes.
RUNS: dict[str, Callable[[Path], object]] = {
    "fresh": lambda path: issue(path, small_run([0, 2, 3], n=200)),
    "shared": lambda path: issue(path, small_run([1, 3, 7], "shared", "hoeffding", n=200)),
    "batchwise": lambda path: issue(path, small_run([6, 2], "batchwise", "runner-up", n=200)),
    "sums": lambda path: issue(path, small_run([0, 2], n=200), votes=False),
    "near": lambda path: issue(path, small_run([0, 2, 7], n=200, near=True)),
    "motley": motley,
    "measured": lambda path: issue(path, measured_run([0, 3, 7])),
    "measured shared": lambda path: issue(path, measured_run([7, 0], again=40, noise="shared")),
    "looks": lambda path: issue(path, looked_run()),
    "looks, ended": ended,
    "looks, together": lambda path: issue(path, looked_run(scores=Brightness())),
    "coins": lambda path: issue(path, coined_run()),
}
#: Who votes in these runs, if not `brightness_of_three`.
VOTERS: dict[str, Callable[[], object]] = {
    "measured": lambda: classifiers.brightness,
    "measured shared": lambda: classifiers.brightness,
    "looks, together": Brightness,
    "coins": Brightness,
}


def honest_files(folder: Path, names: Collection[str] = RUNS.keys()) -> list[Honest]:
    """Such runs, and their certificates as JSON. (Those of sums are as others.)"""
    found = []
    for name in names:
        path = folder / f"{name}.db"
        RUNS[name](path)
        scores = VOTERS[name]() if name in VOTERS else brightness_of_three
        run = Honest(name, packed(path), scores, near=name == "near")
        found += [run] if name == "sums" else [run, _records(run, folder)]
    return found


def _records(run: Honest, folder: Path) -> Honest:
    """The certificates of a run; of some only the first, as .json."""
    with Store.read(run.path) as store:
        lines = list(store.lines())
    one = run.name in ("shared", "batchwise", "measured shared", "looks, together", "coins")
    path = folder / f"{run.path.stem}.{'json' if one else 'jsonl'}"
    path.write_text("".join(f"{line}\n" for line in lines[: 1 if one else None]), encoding="utf-8")
    return Honest(f"{run.name}, as {path.suffix}", path)


# --- one audit -----------------------------------------------------------------------------------------------


class HoleError(AssertionError):
    """Something that must not be: a conclusion that is false, a traceback, a contradiction, a file that changed."""


@dataclass(frozen=True)
class Seen:
    """What an audit said, or None for a file that it refused in one line."""

    result: Verification | None
    claims: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        return self.result is None or self.result.refuted

    @property
    def conclusion(self) -> object:
        """All that may be concluded. Left out: the content hash, which is compared apart, and remarks of the issuer:
        what he recorded himself, and whether an image without a certificate failed or is open.
        """
        assert self.result is not None
        said = self.result.to_dict()
        kept = {name: value for name, value in said.items() if name not in ("target", "content", "notes")}
        kept["checks"] = [check for check in said["checks"] if check["name"] not in ("content hash", "store")]
        kept["certificates"] = {n: v for n, v in said["certificates"].items() if n not in ("failed", "open")}
        return json.dumps([kept, sorted(self.claims.items())], sort_keys=True, default=str)


def audited(path: Path, given: AuditInputs) -> Seen:
    """An audit whose code, JSON and prose agree, that touches nothing, and that refuses in one line if it refuses."""
    before = _contents(path.parent)
    try:
        result = audit_file(path, given)
        _agree(result)
        seen = Seen(result, {} if result.refuted else _claims(path))
    except (ValueError, OSError) as error:
        if "\n" in str(error):
            raise HoleError(f"an error of several lines: {error}") from error
        seen = Seen(None)
    except Exception as error:
        raise HoleError(f"{type(error).__name__}: {error}") from error
    if _contents(path.parent) != before:
        raise HoleError("the audit changed files")
    return seen


def _contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def _agree(result: Verification) -> None:
    report = json.loads(json.dumps(result.to_dict(), ensure_ascii=False).encode())
    out = StringIO()
    show(Console(file=out, width=200), result)
    prose = " ".join(out.getvalue().split())
    code = result.conclusion.code
    right = [
        report["exit code"] == code,
        report["refuted"] == (code == 1) == ("REJECTED" in prose) == bool(report["findings"]["count"]),
        report["full"] == ("FULL VERIFICATION" in prose) == (result.conclusion is Conclusion.FULL),
        ("NOT CONFIRMED" in prose) == (code == 3),
        not report["votes differ"] or code in (1, 3),
        not any(check["passed"] is False for check in report["checks"]) or code == 1,
    ]
    if not all(right):
        raise HoleError(f"code, JSON and prose contradict each other: {code}, {report}, {prose}")


def _claims(path: Path) -> dict[int, tuple[Any, ...]]:
    """What each certificate says, by the number of its image: label, true label, radius and bounds."""
    if path.suffix == ".db":
        query = "SELECT number, label, truth, radius, p_lower, p_upper FROM certificates JOIN images USING (place)"
        with closing(Database.snapshot(path)) as db:
            return {number: tuple(rest) for number, *rest in db.rows(query)}
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    bounds = [[None if r[n] is None else float.fromhex(r[n]["hex"]) for n in BOUNDS] for r in records]
    return {r["index"]: (r["label"], r["truth"], *each) for r, each in zip(records, bounds, strict=True)}


BOUNDS = ("radius", "p_lower", "p_upper")


def _aborted(seen: Seen) -> int:
    return 0 if seen.result is None else seen.result.tally.aborted


def _claiming(path: Path) -> set[int]:
    """The places of images whose certificate has a label."""
    with closing(Database.snapshot(path)) as db:
        return {place for (place,) in db.rows("SELECT place FROM certificates WHERE label IS NOT NULL")}


def weaker(claims: dict[int, tuple[Any, ...]], than: dict[int, tuple[Any, ...]]) -> bool:
    """Whether nothing is claimed that was not claimed before. (An abstention claims nothing.)"""
    for number, (label, truth, radius, p_lower, p_upper) in claims.items():
        if number not in than:
            return False
        label2, truth2, radius2, p_lower2, p_upper2 = than[number]
        if truth != truth2:
            return False
        if label is None:
            continue
        if label != label2 or radius > radius2 or p_lower > p_lower2 or (p_upper or 0) < (p_upper2 or 0):
            return False
    return True


# --- all of them ---------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Tries forgeries of one honest file."""

    honest: Honest
    folder: Path

    def __post_init__(self) -> None:
        self.whole = self.honest.path.read_bytes()
        self.rows = None if self.honest.records else rows_of(self.honest.path)
        bare = audit_file(self.honest.path)
        assert bare.promise is not None
        self.notes = {"commitment": bare.promise.commitment, "nonce": NONCE}
        self.content = bare.content
        self.before = {level: self._audit(self.honest.path, level) for level in self.levels}
        for level, seen in self.before.items():
            assert not seen.found, (level, seen.result)
        self.honestly = self.before[ALONE]
        self.claiming = set() if self.honest.records else _claiming(self.honest.path)
        self.victim = self.folder / f"victim{self.honest.path.suffix}"

    @property
    def levels(self) -> tuple[str, ...]:
        return (ALONE, NOTED) if self.honest.records else (ALONE, NOTED, REPLAYED)

    def _audit(self, path: Path, level: str) -> Seen:
        brought = self._all() if level == REPLAYED else AuditInputs()
        return audited(path, brought if level == ALONE else dataclasses.replace(brought, **self.notes))

    def _all(self) -> AuditInputs:
        return given("all", self.honest.scores, self.honest.images, self.honest.near)

    def found_without_notes(self) -> bool:
        """Whether model, data and replay find the last forgery too. (The key follows from the promise.)"""
        return audited(self.victim, self._all()).found

    def __call__(self, forgery: Forgery) -> tuple[str, str]:
        """Its outcome and, unless it is found, the reason why it does no harm; a HoleError if there is none."""
        for each in self.folder.iterdir():
            each.unlink()
        self.victim.write_bytes(self.whole)
        forgery.make(self.victim)
        if forgery.kind not in REARRANGED and not self.honest.records and rows_of(self.victim) == self.rows:
            raise InapplicableError("nothing is forged")
        try:
            return self._judged(forgery)
        except HoleError as hole:
            raise HoleError(f"{self.honest.name}: {forgery}: {hole}") from hole

    def _judged(self, forgery: Forgery) -> tuple[str, str]:
        seen = {}
        for level in self.levels:
            seen[level] = self._audit(self.victim, level)
            if seen[level].found:
                return level, ""
            if level == ALONE:
                self._by_content(seen[level])
        last = self.levels[-1]
        if seen[last].conclusion == self.before[last].conclusion:
            return SAME, self._reason(forgery, seen[last])
        if weaker(seen[last].claims, self.before[last].claims):
            return WEAKER, self._reason(forgery, seen[last])
        if self.honest.records:
            return OPEN, self._unchecked(forgery, seen[ALONE])
        raise HoleError("not found, and concluded otherwise")

    def _by_content(self, seen: Seen) -> None:
        """Who noted the content hash finds every change of content."""
        if not self.honest.records and seen.result is not None and seen.result.content != self.content:
            again = audited(self.victim, AuditInputs(content=self.content, **self.notes))
            if not again.found:
                raise HoleError("the content is another one, and its hash passed")

    def _reason(self, forgery: Forgery, seen: Seen) -> str:
        """Why it does no harm; a HoleError if no reason is written down for its kind."""
        labels, before = (sum(claim[0] is not None for claim in each.claims.values()) for each in (seen, self.honestly))
        if labels < before or (self.honest.records and len(seen.claims) < len(self.honestly.claims)):
            return ABSTAINS
        if forgery.places and self.claiming.isdisjoint(forgery.places):
            return NOTHING
        if forgery.kind == "row of blocks gone" and _aborted(seen) > _aborted(self.honestly):
            return ENDED
        for text, begins in REASONS.items():
            if forgery.kind.startswith(begins):
                return text
        raise HoleError("not found, and no reason is written down")

    def _unchecked(self, forgery: Forgery, seen: Seen) -> str:
        assert seen.result is not None
        name = UNCHECKED.get(forgery.kind.removeprefix("record: ").split(".")[0])
        if name is None or not any(check.name == name and check.passed is None for check in seen.result.checks):
            raise HoleError("concluded otherwise, and nothing says that this was not checked")
        return f"listed as not checked: {name}"


@dataclass
class Table:
    """How many forgeries of each kind came to what."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    holes: list[str] = field(default_factory=list)
    levels: Counter[str] = field(default_factory=Counter)
    unnoted: Counter[bool] = field(default_factory=Counter)
    """Of the forgeries that notes find: whether a replay without notes finds them."""

    def add(self, other: "Table") -> None:
        for group, counts in other.outcomes.items():
            self.outcomes[group] += counts
        for what, kinds in other.kinds.items():
            self.kinds[what] |= kinds
        self.reasons += other.reasons
        self.levels += other.levels
        self.unnoted += other.unnoted
        self.holes += other.holes

    @property
    def total(self) -> int:
        return sum(counts.total() for counts in self.outcomes.values()) + len(self.holes)


def judged(
    honest: list[Honest],
    folder: Path,
    most: int,
    seed: int,
    tick: Callable[[str], None] = lambda _: None,
    only: str = "",
) -> Table:
    """Forgeries of all files in turn, `most` of each at most, of all groups or of one. The seed says which ones."""
    table = Table()
    folder.mkdir()
    for each in honest:
        judge, made = Judge(each, folder), 0
        for forgery in each.forgeries(random.Random(seed)):
            if made == most:
                break
            if only not in ("", forgery.group):
                continue
            try:
                outcome, reason = judge(forgery)
            except InapplicableError:
                continue
            except HoleError as hole:
                table.holes.append(str(hole))
                made += 1
                continue
            made += 1
            if outcome == NOTED and not each.records and each.scores is brightness_of_three:
                table.unnoted[judge.found_without_notes()] += 1
            table.outcomes[forgery.group][outcome] += 1
            table.levels[forgery.level] += 1
            if reason:
                table.reasons[outcome, reason] += 1
                table.kinds[outcome, reason].add(forgery.kind)
        tick(f"{each.name}: {made}")
    return table
