"""The options of certify, commit, predict and verify: one table, each option in one row; and what was chosen.

The commands' signatures and their help, the types in a configuration file, and the keywords that are handed on all
follow from it. The command line counts first, then the configuration file, then the default.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audit.bounds import BOUNDS, bound_names
from ..certification.stop_rule import DEFAULT_PATIENCE
from ..core.integers import whole_number, written_integer
from ..core.limits import thread_count
from ..core.plain_files import read_plain

SIGMA = "0.25"
ALPHA = "0.001"
BETA = "0.001"
PREDICT_COPIES = 1000
DEMO_COPIES = 10_000
DEMO_IMAGES = 20
#: More bytes than any configuration file has.
MOST_OF_A_FILE = 1 << 20

HOW = "How to certify"
MODEL = "Model and data"
SCALE = "More than one machine"
VOTES = "Votes"
NOTED = "What you noted"
STOP = "When to stop"

ISSUING = ("certify", "commit")
SMOOTHING = (*ISSUING, "predict")
ALL = (*SMOOTHING, "verify")


#: For integers on the command line: 100000, 100_000 and 1e5 are the same.
AS_AN_INTEGER: dict[str, Any] = {"parser": written_integer, "metavar": "<int>"}


@dataclass(frozen=True)
class OptionKind:
    """What an option's value is: on the command line, and in a configuration file."""

    type: Any
    in_a_file: tuple[Any, ...]
    wanted: str

    def read(self, what: str, value: object) -> object:
        """The value in a configuration file; another type is rejected, and true and false are not numbers."""
        switch = isinstance(value, bool)
        if not isinstance(value, self.in_a_file) or switch != (self.type is bool):
            raise ValueError(f"{what} must be {self.wanted}, not {value!r}")
        return whole_number(value, what) if self.type is int and isinstance(value, int | float) else value

    @property
    def reading(self) -> dict[str, Any]:
        """How the command line reads it, where typer's own way is not enough."""
        return AS_AN_INTEGER if self.type is int else {}


TEXT = OptionKind(str, (str,), "a plain value in quotes")
FILE = OptionKind(Path, (str,), "a plain value in quotes")
RATIONAL = OptionKind(str, (str, int, float), "a plain value in quotes")
INTEGER = OptionKind(int, (int, float), "an integer")
REAL = OptionKind(float, (int, float), "a number")
SWITCH = OptionKind(bool, (bool,), "true or false")


class To(Flag):
    """Where an option goes: to one place or to several."""

    COMMAND = auto()
    """The command itself."""
    SMOOTHER = auto()
    """A keyword of `Smoother`; for verify, of the model as it was promised."""
    SETTINGS = auto()
    """A keyword of `settings`."""
    DATA = auto()
    """A keyword of `load`."""
    POOL = auto()
    """A keyword of `remote_pool`."""
    RAY = auto()
    """Only with the Ray engine: others reject it."""


@dataclass(frozen=True)
class Option:
    """One option: what it is called, what it takes, which commands have it, and where it goes."""

    name: str
    kind: OptionKind
    to: To
    on: tuple[str, ...]
    help: str
    default: str = ""
    """As the help shows it. The default itself belongs to the function that the option goes to."""
    panel: str | None = HOW
    flag: str = ""
    """Where it is not the name with two dashes."""
    alias: str = ""
    """A hidden flag that other programs use for the same."""
    positional: bool = False
    value: Any = None
    """The value without the option; `...` if it cannot be left out."""
    check: Callable[..., Any] | None = None
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For a command, the fields that are different there."""

    def parameters(self, command: str) -> Iterator[Parameter]:
        """The parameter that typer makes an option or an argument of; one more for an alias."""
        mine = replace(self, **self.differs.get(command, {}))
        yield _parameter(mine.name, mine.kind, mine._info(), mine.value)
        if mine.alias:
            hidden = typer.Option(mine.alias, hidden=True, **mine.kind.reading)
            yield _parameter(alias_of(mine.name), mine.kind, hidden)

    def _info(self) -> Any:
        # The bracket is escaped: rich would take it for markup.
        text = f"{self.help} \\[default: {self.default}]" if self.default else self.help
        if self.positional:
            return typer.Argument(metavar=self.name.upper(), help=text, show_default=False)
        flag = self.flag or dashed(self.name)
        return typer.Option(
            flag, help=text, rich_help_panel=self.panel, show_default=False, callback=self.check, **self.kind.reading
        )


def _parameter(name: str, kind: OptionKind, info: Any, value: Any = None) -> Parameter:
    """A keyword whose annotation tells typer the rest."""
    wanted: Any = kind.type | None if value is None else kind.type
    default = Parameter.empty if value is ... else value
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[wanted, info])


def alias_of(name: str) -> str:
    """The parameter in which a hidden flag for the option arrives."""
    return f"alias_{name}"


def dashed(name: str) -> str:
    """The option as it is written on the command line."""
    return f"--{name.replace('_', '-')}"


def as_written(name: str, value: object) -> str:
    """An option with its value, as one adds it to a command; a switch has none."""
    return dashed(name) if value is True else f"{dashed(name)} {value}"


PROMISED = {"default": "as promised"}

#: In the order in which the help shows them.
OPTIONS = (
    Option("target", FILE, To.COMMAND, ("verify",), "A run (.db), or certificates (.json, .jsonl).", positional=True,
           value=...),
    Option("model", TEXT, To.COMMAND, SMOOTHING,
           "An .onnx file, or package.module:factory (which imports the module and so runs its code). "
           "Without it: the embedded classifier.", positional=True),
    Option("data", FILE, To.COMMAND, SMOOTHING,
           "An .npz file with x (images) and y (labels), an .npy, a folder of images, or the files of MNIST or CIFAR. "
           "Without it: the embedded images.", positional=True),
    Option("model", TEXT, To.COMMAND, ("verify",), "The model: .onnx, or package.module:factory.", panel=MODEL),
    Option("data", FILE, To.COMMAND, ("verify",), "The data, all of it: whatever certify takes.", panel=MODEL),
    Option("replay", TEXT, To.COMMAND, ("verify",),
           "Repeat votes: 5%, all, or a number of blocks, drawn after the hash is shown.", panel=VOTES),
    Option("commitment", TEXT, To.COMMAND, ("verify",), "The commitment C that you received.", panel=NOTED),
    Option("nonce", TEXT, To.COMMAND, ("verify",), "The nonce N that you drew after it.", panel=NOTED),
    Option("promise", FILE, To.COMMAND, ("verify",), "The promise, as commit wrote it.", panel=NOTED),
    Option("content", TEXT, To.COMMAND, ("verify",), "The content hash that was handed over.", flag="--hash",
           panel=NOTED),
    Option("beta", RATIONAL, To.COMMAND, ("verify",),
           "Upper bound on the probability that more bad blocks than stated escape.", BETA,
           panel=VOTES, value=BETA),
    Option("other_machine", SWITCH, To.COMMAND, ("verify",),
           "This machine is known to round differently: differences may be honest.",
           flag="--other-machine/--no-other-machine", panel=VOTES, value=False),
    Option("sigma", RATIONAL, To.SMOOTHER, SMOOTHING, "Noise, in units of the [0, 1] range: 0.25, 1/3 …", SIGMA),
    Option("n", INTEGER, To.SETTINGS, SMOOTHING, "Noisy copies for the estimate; with --radii or --width, at most.",
           f"100000; {DEMO_COPIES} for the demo", alias="--N",
           differs={"predict": {"help": "Noisy copies for one answer.", "default": str(PREDICT_COPIES)}}),
    Option("n0", INTEGER, To.SETTINGS, ISSUING, "Noisy copies that select the class.", "100", alias="--N0"),
    Option("alpha", RATIONAL, To.SETTINGS, SMOOTHING,
           "Upper bound on the probability of issuing a false certificate.", ALPHA,
           differs={"predict": {"help": "Upper bound on the probability of a wrong answer."}}),
    Option("k", RATIONAL, To.SMOOTHER, SMOOTHING, "Noisy values are clamped to [-k, 1 + k].", "6"),
    Option("bound", TEXT, To.SETTINGS, ISSUING,
           f"From the winner's votes: {bound_names(two_sided=False)}; with the others': {bound_names(two_sided=True)}.",
           f"{next(iter(BOUNDS))}; for radii, group-sequential"),
    Option("radii", TEXT, To.SETTINGS, ISSUING,
           "Stop voting on an image when it is decided which of these radii it has: 0.5, or 0,0.25,0.5, or steps "
           "(0, 0.25, 0.5 … as far as --n reaches). With rows proved independent, only these are certified.",
           "no; every image has --n copies", panel=STOP),
    Option("width", RATIONAL, To.SETTINGS, ISSUING,
           "For average radii, instead of --radii: stop voting on an image when its radius is within this share, "
           "such as 1%, of the one that --n copies are expected to give.", panel=STOP),
    Option("patience", INTEGER, To.SETTINGS, ISSUING,
           "With --radii, how many votes one more certified radius of an image is worth to you. "
           "More of it certifies a little more, and spends more on doubtful images.",
           f"{DEFAULT_PATIENCE:.0f}", panel=STOP),
    Option("looks", TEXT, To.SETTINGS, SMOOTHING,
           "After how many copies votes are counted and an image may stop, the last being --n: 100,1000,10000; "
           "or also what each spends of --alpha: 100=0.0001,1000=0.0002,10000=0.0007.",
           "auto: 100, 126, 159, 200, … and --n", panel=STOP,
           differs={"predict": {"help": "Answer at the first of these numbers of votes that decides: auto, or "
                                        "100,300,1000.", "default": "n alone"}}),
    Option("skip_wrong", SWITCH, To.SETTINGS, ISSUING,
           "Stop after --n0 copies if the class that they select is not the image's label. The image has no "
           "certificate then, and counts as a wrong answer.", panel=STOP),
    Option("noise", TEXT, To.SETTINGS, ISSUING,
           "fresh (for every image), shared (by all, kept in memory), batchwise (shared, little memory).", "fresh"),
    Option("limit", INTEGER, To.DATA, SMOOTHING, "At most this many images.", f"all; {DEMO_IMAGES} for the demo",
           panel=MODEL, alias="--max"),
    Option("every", INTEGER, To.DATA, SMOOTHING, "Take each image whose number is a multiple of EVERY.", "1",
           panel=MODEL, alias="--skip"),
    Option("batch_size", INTEGER, To.SMOOTHER, SMOOTHING, "Rows of a batch.",
           "100, fewer for large torch models; on a GPU the most that fit, up to 10000", alias="--batch"),
    Option("device", TEXT, To.SMOOTHER, ALL,
           "Where the model runs: cpu, cuda, cuda:1 …", "where the model is", panel=MODEL),
    Option("dtype", TEXT, To.SMOOTHER, ALL, "Precision of torch models: float32, bf16 or fp16.", "float32", panel=MODEL,
           differs={"verify": PROMISED}),
    Option("channels_last", SWITCH, To.SMOOTHER, ALL,
           "Use the channels-last memory layout, for torch models.", panel=MODEL,
           differs={"verify": PROMISED}),
    Option("compile", TEXT, To.SMOOTHER, ALL,
           "How torch models run: none (as they are), cuda-graph, torch-compile, or tuned (kernels are chosen once, by "
           "timing). auto compiles for long runs on a GPU.", "auto",
           panel=MODEL, differs={"verify": PROMISED}),
    Option("artifact", FILE, To.COMMAND, (*ISSUING, "verify"),
           "The file of tuned kernels: taken from there if it exists, else written. It is code: take only your own.",
           "beside the run", panel=MODEL,
           differs={"verify": {"help": "The file of tuned kernels, with --trust-artifact."}}),
    Option("trust_artifact", SWITCH, To.COMMAND, ("verify",),
           "Vote with the run's tuned kernels. They are code, which runs here.", panel=VOTES, value=False),
    Option("threads", INTEGER, To.SMOOTHER, ALL, "Threads for the noise and for the model on the CPU.", "all cores",
           check=thread_count, differs={"verify": {**PROMISED, "panel": MODEL}}),
    Option("workers", INTEGER, To.SMOOTHER | To.POOL, SMOOTHING, "Copies of the model that run in parallel.",
           "one per GPU", panel=MODEL),
    Option("seed", TEXT, To.COMMAND, ISSUING, "64 hex digits, or any text, which is hashed.", "from the system"),
    Option("nonce", TEXT, To.COMMAND, ("certify",),
           "64 hex digits that the verifier drew after the promise was fixed."),
    Option("commitment", TEXT, To.COMMAND, ("certify",), "Run only if the promise has this commitment."),
    Option("layout", TEXT, To.DATA, ALL,
           "Reorder the axes of images: as-is, nhwc-to-nchw or nchw-to-nhwc.", "as-is", panel=MODEL),
    Option("x_key", TEXT, To.DATA, ALL, "The array of an .npz that holds the images.",
           "x, or the only one with images", panel=MODEL),
    Option("y_key", TEXT, To.DATA, ALL, "The array of an .npz that holds the labels.",
           "y, or the one beside the images", panel=MODEL),
    Option("resize", INTEGER, To.DATA, ALL, "Resize image files: pixels of the short side. Certificates hold after it.",
           "no", panel=MODEL),
    Option("crop", INTEGER, To.DATA, ALL, "Take the middle CROP × CROP pixels of image files, after resizing.", "no",
           panel=MODEL),
    Option("weights", FILE, To.SMOOTHER, ALL,
           "A file of weights for package.module:factory, as .safetensors, .pt, .pth, .pth.tar, .ckpt or .bin.",
           panel=MODEL),
    Option("output", TEXT, To.SMOOTHER, SMOOTHING,
           "The output that votes, of a model with several: its name, or its number from 0.", panel=MODEL),
    Option("independence", TEXT, To.SMOOTHER, SMOOTHING,
           "How it is established: auto (proved; else graphs and torch modules measured, others checked), "
           "proved (or rejected), measured (vote rows again, alone), checked, assumed.", "auto", panel=MODEL),
    Option("again", INTEGER, To.SMOOTHER, ISSUING, "Rows of each image to vote again, with --independence measured.",
           "1000", panel=MODEL),
    Option("require_proof", SWITCH, To.COMMAND, SMOOTHING,
           "Reject a model whose rows are not proved to be independent.", panel=MODEL),
    Option("untrusted", SWITCH, To.SMOOTHER, ALL,
           "Run the .onnx file in a process that never holds the key or the run.", panel=MODEL),
    Option("timeout", REAL, To.SMOOTHER | To.POOL, ALL,
           "Seconds after which a model that hangs is ended: over a batch if it is untrusted, over a block elsewhere.",
           "600 if untrusted, else never", panel=SCALE,
           differs={"verify": {"help": "Seconds after which an untrusted model is ended, over a batch.",
                               "default": "600", "panel": MODEL}}),
    Option("out", FILE, To.COMMAND, SMOOTHING,
           "Write the records here: .jsonl or .tsv; or .db, a run that survives interruption: the same command "
           "continues.", panel=MODEL,
           differs={"commit": {"help": "Write the promise to this new file instead."},
                    "predict": {"help": "Write the records here: .jsonl or .tsv."}}),
    Option("no_votes", SWITCH, To.COMMAND, ("certify",),
           "Keep only counts in the .db, not which copies voted for the label.", panel=MODEL),
    Option("engine", TEXT, To.COMMAND, ISSUING,
           "Where workers run: local (threads), processes, or ray (a cluster; pip install 'soundsmooth\\[ray]').",
           "local", panel=SCALE),
    Option("address", TEXT, To.POOL | To.RAY, ISSUING, "Address of the Ray cluster: HOST:PORT or auto.",
           "RAY_ADDRESS, or one on this machine", panel=SCALE),
    Option("cpus_per_worker", REAL, To.POOL | To.RAY, ISSUING,
           "CPUs that Ray reserves for each worker.", "the model's threads; 1 beside a GPU",
           panel=SCALE),
    Option("gpus_per_worker", REAL, To.POOL | To.RAY, ISSUING,
           "GPUs that Ray reserves for each worker; 0.5 lets two workers share one.",
           "1 for --device cuda", panel=SCALE),
    Option("allow_mixed", SWITCH, To.RAY, ISSUING,
           "Let workers on different kinds of device vote; the promise says `device: mixed`.", panel=SCALE),
    Option("config", FILE, To.COMMAND, SMOOTHING, "A TOML file with any of these options; the command line wins.",
           panel=MODEL),
    Option("quiet", SWITCH, To.COMMAND, ("certify", "predict", "verify"),
           "Show nothing but errors; the exit code says the rest.", panel=None),
    Option("verbose", SWITCH, To.COMMAND, ("certify",), "Show what was promised, too.", panel=None),
    Option("json", SWITCH, To.COMMAND, ("verify",), "One JSON object instead of a screen.", panel=None, value=False),
)  # fmt: skip

#: What a configuration file may have. One file may serve commit, certify and predict: each takes what it needs.
IN_A_FILE = {each.name: each.kind for each in OPTIONS if set(each.on) & set(SMOOTHING) and each.name != "config"}


def signature(command: str) -> Signature:
    """What a command takes."""
    return Signature([made for each in OPTIONS if command in each.on for made in each.parameters(command)])


def names_for(to: To) -> list[str]:
    """The options that go to one place, each once."""
    return list(dict.fromkeys(each.name for each in OPTIONS if to in each.to))


class Choices:
    """The options that were chosen, of one command."""

    def __init__(self, given: Mapping[str, object], config: Path | None = None, command: str = "certify") -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._file = read_config(config, command) if config else {}

    def get(self, name: str, default: Any = None) -> Any:
        return self._given.get(name, self._file.get(name, default))

    def given(self, name: str) -> Any:
        """The choice on the command line; a configuration file is ignored."""
        return self._given.get(name)

    def path(self, name: str) -> Path | None:
        value = self.get(name)
        return None if value is None else Path(value)

    def going_to(self, to: To) -> dict[str, Any]:
        """The keywords for one place, of choices that were made at all: others keep their defaults."""
        return {name: self.get(name) for name in names_for(to) if self.get(name) is not None}


def takes_options(command: str) -> Callable[[Callable[[Choices], None]], Callable[..., None]]:
    """A command whose parameters are the table's options for it; the function gets what was chosen."""

    def made(function: Callable[[Choices], None]) -> Callable[..., None]:
        @wraps(function)
        def called(**given: Any) -> None:
            config = given.pop("config", None)
            function(Choices(_without_aliases(given), config, command))

        called.__dict__["__signature__"] = signature(command)
        return called

    return made


def _without_aliases(given: Mapping[str, object]) -> dict[str, object]:
    """The options; where a hidden flag was given, its value counts."""
    aliases = {alias_of(name) for name in given}
    chosen = {name: value for name, value in given.items() if name not in aliases}
    return chosen | {name: given[alias_of(name)] for name in chosen if given.get(alias_of(name)) is not None}


def read_config(path: Path, command: str = "certify") -> dict[str, Any]:
    """The options in a TOML file, each checked for its type. A table [certify] is for that command alone, and wins."""
    text = read_plain(path, "configuration file", MOST_OF_A_FILE)
    try:
        entries = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} is not a TOML file: {error}") from None
    tables = {name: entries.pop(name) for name in SMOOTHING if isinstance(entries.get(name), dict)}
    read = {name: _read_options(path, table) for name, table in tables.items()}
    return _read_options(path, entries) | read.get(command, {})


def _read_options(path: Path, entries: Mapping[str, object]) -> dict[str, Any]:
    """Options by their names, each checked for its type."""
    choices = {name.replace("-", "_"): value for name, value in entries.items()}
    for name in choices:
        if name not in IN_A_FILE:
            raise ValueError(
                f"{str(path)!r} has an unknown option {name!r}; known are {', '.join(sorted(IN_A_FILE))}, and the "
                f"tables {', '.join(f'[{each}]' for each in SMOOTHING)}"
            )
    return {name: IN_A_FILE[name].read(f"{path.name}: {name}", value) for name, value in choices.items()}
