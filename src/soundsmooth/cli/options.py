"""The options of the commands, once."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..audit.bounds import BOUNDS, bound_names
from ..limits import thread_count
from ..plain_files import read_plain

_HOW = "How to certify"
_MODEL = "Model and data"
_SCALE = "More than one machine"
MOST_OF_A_FILE = 1 << 20

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="An .onnx file, or package.module:factory (which imports the module and so runs its code). "
        "Without it: the embedded classifier.",
        show_default=False,
    ),
]
DataArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="An .npz file with x (uint8 images) and y (labels). Without it: the embedded images.",
        show_default=False,
    ),
]


def _option(
    text: str, *names: str, default: str = "", panel: str = _HOW, check: Callable[..., Any] | None = None
) -> Any:
    shown = f"{text} \\[default: {default}]" if default else text  # escaped: rich would take it for markup
    return typer.Option(*names, help=shown, rich_help_panel=panel, show_default=False, callback=check)


def _alias(name: str) -> Any:
    return typer.Option(name, hidden=True)


Sigma = Annotated[str | None, _option("Noise, in units of the [0, 1] range: 0.25, 1/3 …", default="0.25")]
K = Annotated[str | None, _option("Noisy values are clamped to [-k, 1 + k].", "--k", default="6")]
N = Annotated[int | None, _option("Noisy copies for the estimate.", "--n", default="100000; 10000 for the demo")]
N0 = Annotated[int | None, _option("Noisy copies that select the class.", "--n0", default="100")]
PredictN = Annotated[int | None, _option("Noisy copies for one answer.", "--n", default="1000")]
Alpha = Annotated[str | None, _option("How often a certificate may be false, at the most.", default="0.001")]
PredictAlpha = Annotated[str | None, _option("How often an answer may be wrong, at the most.", default="0.001")]
Bound = Annotated[
    str | None,
    _option(
        f"From the winner's votes: {bound_names(two_sided=False)}; with the others': {bound_names(two_sided=True)}.",
        default=next(iter(BOUNDS)),
    ),
]
Noise = Annotated[
    str | None,
    _option(
        "fresh (for every image), shared (by all, kept in memory), batchwise (shared, little memory).", default="fresh"
    ),
]
Seed = Annotated[str | None, _option("64 hex digits, or any text, which is hashed.", default="from the system")]
Nonce = Annotated[str | None, _option("64 hex digits that the verifier drew after the promise was fixed.")]
Commitment = Annotated[str | None, _option("Refuse to run unless the promise has this commitment.")]
Threads = Annotated[
    int | None, _option("Threads for the noise and for the model on the CPU.", default="all cores", check=thread_count)
]
BatchSize = Annotated[
    int | None, _option("Rows the model sees at a time.", default="100; on a GPU the most that fit, up to 10000")
]

Weights = Annotated[Path | None, _option("A .safetensors file for package.module:factory.", panel=_MODEL)]
Layout = Annotated[str | None, _option("as-is, nhwc-to-nchw or nchw-to-nhwc.", panel=_MODEL, default="as-is")]
Untrusted = Annotated[
    bool | None,
    _option("Run the .onnx file in a process that never holds the key or the run.", "--untrusted", panel=_MODEL),
]
Limit = Annotated[int | None, _option("At most this many images.", panel=_MODEL, default="all; 20 for the demo")]
Skip = Annotated[int | None, _option("Every SKIP-th image only.", panel=_MODEL, default="1")]
Device = Annotated[str | None, _option("cpu, cuda, cuda:1 …", panel=_MODEL, default="where the model is")]
Dtype = Annotated[str | None, _option("float32, bf16 or fp16, for torch models.", panel=_MODEL, default="float32")]
ChannelsLast = Annotated[bool | None, _option("Memory layout for torch models.", "--channels-last", panel=_MODEL)]
Compile = Annotated[
    str | None, _option("none, cuda-graph or torch-compile, for torch models.", panel=_MODEL, default="none")
]
Workers = Annotated[
    int | None, _option("Copies of the model that work side by side.", panel=_MODEL, default="one per GPU")
]
Independence = Annotated[
    str | None,
    _option(
        "auto (proved; else graphs and torch modules measured, others checked), proved (refuse what is not), "
        "measured (vote rows again, alone), checked, assumed.",
        panel=_MODEL,
        default="auto",
    ),
]
Again = Annotated[
    int | None, _option("Rows of each image to vote again, with --independence measured.", panel=_MODEL, default="1000")
]
RequireProof = Annotated[
    bool | None,
    _option("Refuse a model whose rows are not proved to be independent.", "--require-proof", panel=_MODEL),
]
Out = Annotated[Path | None, _option("Write the records here: .jsonl or .tsv.", panel=_MODEL)]
CertifyOut = Annotated[
    Path | None,
    _option(
        "Write the records here: .jsonl or .tsv; or .db, a run that survives interruption: the same command continues.",
        panel=_MODEL,
    ),
]
NoVotes = Annotated[
    bool | None,
    _option("Keep counts only in the .db, not which copies voted for the label.", "--no-votes", panel=_MODEL),
]
PromiseOut = Annotated[Path | None, _option("Write the promise to this new file instead.", panel=_MODEL)]
Engine = Annotated[
    str | None,
    _option(
        "Who votes: local (threads), processes, or ray (a cluster; pip install 'soundsmooth\\[ray]').",
        panel=_SCALE,
        default="local",
    ),
]
Address = Annotated[
    str | None,
    _option("Of the Ray cluster: HOST:PORT or auto.", panel=_SCALE, default="RAY_ADDRESS, or one on this machine"),
]
Timeout = Annotated[
    float | None,
    _option(
        "Seconds after which a model that hangs is ended: over a batch if it is untrusted, over a block elsewhere.",
        panel=_SCALE,
        default="600 if untrusted, else never",
    ),
]
CpusPerWorker = Annotated[
    float | None, _option("For Ray to reserve.", panel=_SCALE, default="the model's threads; 1 beside a GPU")
]
GpusPerWorker = Annotated[
    float | None,
    _option("For Ray to reserve; 0.5 for two workers on each.", panel=_SCALE, default="1 for --device cuda"),
]
AllowMixed = Annotated[
    bool | None,
    _option("Promise `device: mixed` and let workers of different kinds vote.", "--allow-mixed", panel=_SCALE),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A .db file that certify wrote.")]
Config = Annotated[Path | None, _option("A TOML file with any of these options; the command line wins.", panel=_MODEL)]

AliasN = Annotated[int | None, _alias("--N")]
AliasN0 = Annotated[int | None, _alias("--N0")]
AliasBatch = Annotated[int | None, _alias("--batch")]
AliasMax = Annotated[int | None, _alias("--max")]

_NOTED = "What you noted"
_AGAIN = "Votes"
VerifyModel = Annotated[str | None, _option("The model: .onnx, or package.module:factory.", "--model", panel=_MODEL)]
VerifyData = Annotated[Path | None, _option("The data: an .npz file, all of it.", "--data", panel=_MODEL)]
VerifyTimeout = Annotated[
    float | None, _option("Seconds after which an untrusted model is ended, over a batch.", panel=_MODEL, default="600")
]
VerifyThreads = Annotated[
    int | None,
    _option(
        "Threads for the noise and for the model on the CPU.", panel=_MODEL, default="as promised", check=thread_count
    ),
]
VerifyDtype = Annotated[
    str | None, _option("float32, bf16 or fp16, for torch models.", panel=_MODEL, default="as promised")
]
VerifyChannelsLast = Annotated[
    bool | None, _option("Memory layout for torch models.", "--channels-last", panel=_MODEL, default="as promised")
]
VerifyCompile = Annotated[
    str | None, _option("none, cuda-graph or torch-compile, for torch models.", panel=_MODEL, default="as promised")
]
Replay = Annotated[
    str | None, _option("Vote again: 5%, all, or a number of blocks. Drawn after the hash is shown.", panel=_AGAIN)
]
Beta = Annotated[str, _option("How often more bad blocks than stated may escape.", panel=_AGAIN, default="0.001")]
OtherMachine = Annotated[
    bool, _option("This machine is known to round differently: differences may be honest.", panel=_AGAIN)
]
NotedCommitment = Annotated[str | None, _option("The commitment C that you received.", "--commitment", panel=_NOTED)]
NotedNonce = Annotated[str | None, _option("The nonce N that you drew after it.", "--nonce", panel=_NOTED)]
NotedPromise = Annotated[Path | None, _option("The promise, as commit wrote it.", "--promise", panel=_NOTED)]
NotedContent = Annotated[str | None, _option("The content hash that was handed over.", "--hash", panel=_NOTED)]


class Choices:
    """What was asked for: the command line first, then the configuration file, then the default."""

    def __init__(self, given: Mapping[str, object], config: Path | None) -> None:
        self._given = {name: value for name, value in given.items() if value is not None}
        self._file = _read(config) if config else {}

    def get(self, name: str, default: Any = None) -> Any:
        return self._given.get(name, self._file.get(name, default))

    def path(self, name: str) -> Path | None:
        value = self.get(name)
        return None if value is None else Path(value)

    def only_given(self, *names: str) -> dict[str, Any]:
        """The named choices that were made at all, so that others keep their defaults."""
        return {name: self.get(name) for name in names if self.get(name) is not None}


INTEGERS = {"n", "n0", "again", "limit", "skip", "threads", "workers", "batch_size"}
NUMBERS = {"sigma", "alpha", "k"}
REALS = {"timeout", "cpus_per_worker", "gpus_per_worker"}
TEXTS = {
    "model",
    "data",
    "bound",
    "noise",
    "device",
    "dtype",
    "seed",
    "nonce",
    "layout",
    "weights",
    "independence",
    "compile",
    "out",
    "engine",
    "address",
}
TRUTHS = {"channels_last", "untrusted", "require_proof", "no_votes", "allow_mixed"}
#: One file may serve commit, certify and predict: each takes what it needs.
KNOWN = INTEGERS | NUMBERS | REALS | TEXTS | TRUTHS | {"commitment"}


def _check_type(what: str, name: str, value: object) -> None:
    if name in INTEGERS and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"{what} must be an integer, not {value!r}")
    if name in TRUTHS and not isinstance(value, bool):
        raise ValueError(f"{what} must be true or false, not {value!r}")
    if name in REALS and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{what} must be a number, not {value!r}")
    plain = (str, int, float) if name in NUMBERS else str
    if name not in INTEGERS | TRUTHS | REALS and not isinstance(value, plain):
        raise ValueError(f"{what} must be a plain value in quotes, not {value!r}")


def _read(path: Path) -> dict[str, Any]:
    text = read_plain(path, "configuration file", MOST_OF_A_FILE)
    try:
        entries = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} is not a TOML file: {error}") from None
    choices = {name.replace("-", "_"): value for name, value in entries.items()}
    for name, value in choices.items():
        if name not in KNOWN:
            raise ValueError(f"{str(path)!r} has an unknown option {name!r}; known are {', '.join(sorted(KNOWN))}")
        _check_type(f"{path.name}: {name}", name, value)
    return choices
