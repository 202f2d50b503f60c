"""One side of `side_by_side.py`: runs configurations with the package of one checkout, and says what came out.

    PYTHONPATH=CHECKOUT/src:experiments/house python one_side.py CHECKOUT

Each line of standard input is a configuration in JSON, each line of standard output what came of it. The package is
reached only by `Smoother`, `Grid`, and the command line, which is looked up in the checkout's pyproject.toml: inner
names may differ between the two sides.
"""

import csv
import importlib
import io
import json
import os
import sqlite3
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import toy_models

#: What depends on the moment, the machine or the release, in records and in what verify says.
PASSING = {"seconds", "environment", "checksum", "time", "at", "begun", "content", "content hash", "sha256", "hash"}
#: What each table of a run says, without times and machines.
TABLES = {
    "run": "SELECT name, value FROM run WHERE name != 'begun' ORDER BY name",
    "images": "SELECT place, number, truth, state, attempts, error FROM images ORDER BY place",
    "blocks": "SELECT place, purpose, first, count, votes, hex(hits) FROM blocks ORDER BY place, purpose, first",
    "alone": "SELECT place, first, hex(kept) FROM alone ORDER BY place, first",
    "certificates": "SELECT place, label, radius, p_lower, p_upper, selection, estimation, lost FROM certificates "
    "ORDER BY place",
    "findings kept": "SELECT place FROM findings ORDER BY id",
}


def command_line(checkout: Path) -> Callable[[], None]:
    """The function behind the command `soundsmooth` of this checkout."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["soundsmooth"].partition(":")
    found: Callable[[], None] = getattr(importlib.import_module(module), name)
    return found


def plain(value: Any) -> Any:
    """JSON data without what depends on the moment or the machine."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in PASSING}
    return [plain(each) for each in value] if isinstance(value, list) else value


def kind_of(error: BaseException) -> str:
    """The built-in class that an error belongs to: classes of the package may have other names on the other side."""
    return next(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")


def certify_here(asked: dict[str, Any]) -> dict[str, Any]:
    """`Smoother.certify` and `Smoother.certify_all`: the certificates, and the error that ended them, if one did."""
    done: list[Any] = []
    try:
        for certificate in _certificates(asked):
            record = plain(json.loads(certificate.to_json()))
            done.append({**record, "promise text": certificate.promise.text})
    except Exception as error:  # whatever it is, it is compared
        return {"certificates": done, "kind": kind_of(error), "error text": str(error)}
    return {"certificates": done, "kind": None}


def _certificates(asked: dict[str, Any]) -> Iterator[Any]:
    smooth, settings = _smoother(asked), dict(asked["settings"])
    images, labels = np.array(asked["images"], np.uint8), asked["labels"]
    if asked["way"] == "certify":
        settings.pop("noise", None)
        for place, image in enumerate(images):
            yield smooth.certify(image, label=None if labels is None else labels[place], **settings)
    else:
        yield from smooth.certify_all(images, labels, **settings)


def _smoother(asked: dict[str, Any]) -> Any:
    import soundsmooth

    options = dict(asked["smoother"])
    if "grid" in options:
        options["grid"] = soundsmooth.Grid(*options["grid"])
    model = getattr(toy_models, asked["model"]) if asked["callable"] else asked["model"]
    return soundsmooth.Smoother(model, options.pop("sigma"), **options)


def run_commands(main: Callable[[], None], asked: dict[str, Any]) -> dict[str, Any]:
    """The exit code of each command, what those say that answer in JSON or with a promise, and all files at the end."""
    said = []
    for command in asked["commands"]:
        with _interrupted(command.get("interrupt")):
            code, out, error = _run(main, command["words"])
        name, heard = " ".join(command["words"][:2]), _heard(command, out)
        said.append({"command": name, "exit": code, "output": heard, "error text": error.strip()})
    return {"commands": said, "files": {path.name: content(path) for path in sorted(Path.cwd().iterdir())}}


def _run(main: Callable[[], None], words: list[str]) -> tuple[Any, str, str]:
    """The exit code, or the kind of an error that nobody caught; and what was written to the two outputs."""
    kept, written = (sys.argv, sys.stdout, sys.stderr), (io.BytesIO(), io.BytesIO())
    sys.argv = ["soundsmooth", *words]
    sys.stdout, sys.stderr = (io.TextIOWrapper(each, encoding="utf-8") for each in written)
    try:
        main()
        code: Any = 0
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        code = kind_of(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        out, error_text = (each.getvalue().decode() for each in written)
        sys.argv, sys.stdout, sys.stderr = kept
    return code or 0, out, error_text


def _heard(command: dict[str, Any], text: str) -> Any:
    """What is compared of an output: all of a promise, JSON without times, nothing of texts for people."""
    if command.get("output") == "json":
        return plain(json.loads(text)) if text.strip() else None
    return text if command.get("output") == "text" else None


@contextmanager
def _interrupted(after: int | None) -> Iterator[None]:
    """The next graph is interrupted, as if by Ctrl-C, in its call of this number. Nothing of the package is touched."""
    if after is None:
        yield
        return
    import onnxruntime

    run, left = onnxruntime.InferenceSession.run, [after]

    def counted(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return run(*arguments, **named)

    onnxruntime.InferenceSession.run = counted
    try:
        yield
    finally:
        onnxruntime.InferenceSession.run = run


def content(path: Path) -> Any:
    """What a file says, without times: records, tables, runs."""
    if path.suffix == ".jsonl":
        return [_record(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix in (".tsv", ".csv"):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
        timed = [number for number, name in enumerate(rows[0]) if name in ("time", "seconds")]
        return [[cell for number, cell in enumerate(row) if number not in timed] for row in rows]
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path).drop_columns(["seconds"]).to_pylist()
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as run:
            return {name: run.execute(query).fetchall() for name, query in TABLES.items()}
    return path.read_text(encoding="utf-8") if path.suffix == ".txt" else None


def _record(record: dict[str, Any]) -> Any:
    """A certificate as it is; of a prediction, whose key is fresh, only the names and kinds of its fields."""
    if "format" in record:
        return plain(record)
    return {name: type(value).__name__ for name, value in record.items() if name != "label"}


def answer(main: Callable[[], None], asked: dict[str, Any]) -> dict[str, Any]:
    folder = Path(asked["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    if asked["way"] in ("certify", "certify_all"):
        return certify_here(asked)
    if not Path("data.npz").exists():
        labels = {} if asked["labels"] is None else {"y": np.array(asked["labels"])}
        np.savez("data.npz", x=np.array(asked["images"], np.uint8), **labels)
    return run_commands(main, asked)


def serve(checkout: Path) -> None:
    """Answer line by line. What models and libraries print goes elsewhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import soundsmooth

    where = Path(str(soundsmooth.__file__)).resolve()
    if not where.is_relative_to(checkout.resolve()):
        raise SystemExit(f"this is the package of {where}, not that of {checkout}")
    main = command_line(checkout)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        answers.write(json.dumps(answer(main, json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
