"""The one place where the golden tests touch the program: the command line, the Smoother, and what is read of a run.

When the program's modules move, this file follows them. The golden files never do.
"""

import hashlib
import importlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import soundsmooth as ss
from command import Done, left_as_it_was, run_command
from soundsmooth.cli.main import app

DATA = Path(__file__).parent / "data"
#: What a certificate records of the occasion, not of the promise or the votes.
OF_THE_OCCASION = ("seconds", "environment", "checksum")
TITLE = "soundsmooth promise v1"


def golden(name: str) -> Any:
    """A golden file's content."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def torch_version() -> str:
    return version("torch").partition("+")[0]


def needs_golden_torch(model_name: str) -> None:
    """Digests and kernels of torch modules follow torch's version, which the tests pin."""
    if "torch" in model_name and torch_version() != golden("promises.json")["torch"]:
        pytest.skip("the golden files were made with another version of torch")


# --- the command line -------------------------------------------------------------------------------------------------


def command(*arguments: object, env: Mapping[str, str] | None = None) -> Done:
    """Run `soundsmooth ARGUMENTS` in this process, on a wide screen; with any exit code."""
    return run_command(*arguments, code=None, env={"COLUMNS": "200", **(env or {})})


def filled(arguments: list[str], **places: Path) -> list[str]:
    """The arguments of a golden command, with `{data}` and other names of places filled in."""
    return [argument.format(data=DATA, **places) for argument in arguments]


def options() -> dict[str, dict[str, dict[str, Any]]]:
    """Every command, and of each parameter its names, kind, type and default. `bench cpu` is named with a space."""
    return {name: _parameters(found) for name, found in _commands(get_command(app), ()) if name}


def _commands(found: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), found
    for name, each in getattr(found, "commands", {}).items():
        yield from _commands(each, (*path, name))


def _parameters(found: Any) -> dict[str, dict[str, Any]]:
    parameters = [each for each in found.params if each.name != "help"]
    return {_name(each): _parameter(each) for each in parameters}


def _name(parameter: Any) -> str:
    """The longest spelling of an option; for an argument the name that the help shows."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return max(parameter.opts, key=len)


def _parameter(parameter: Any) -> dict[str, Any]:
    is_option = parameter.param_type_name == "option"
    default = parameter.default
    plain = default is None or isinstance(default, bool | int | float | str)
    return {
        "kind": parameter.param_type_name,
        "names": sorted([*parameter.opts, *parameter.secondary_opts]) if is_option else [],
        "type": _type(parameter),
        "default": default if plain else None,
        "required": parameter.required,
        "flag": bool(getattr(parameter, "is_flag", False)),
        "many": bool(parameter.multiple if is_option else parameter.nargs == -1),
        "hidden": bool(getattr(parameter, "hidden", False)),
    }


TYPES = {str: "text", int: "integer", float: "number", bool: "boolean", Path: "path"}


def _type(parameter: Any) -> str:
    """What kind of value it takes, as typer keeps it: an annotation, or one of click's types."""
    if not hasattr(parameter, "type_descriptor"):
        found = str(parameter.type.name)
        return {"float": "number", "integer range": "integer", "float range": "number"}.get(found, found)
    annotation = parameter.type_descriptor.annotation
    (kind,) = getattr(annotation, "__args__", (annotation,))
    return TYPES.get(kind, str(kind))


# --- the Smoother and its certificates --------------------------------------------------------------------------------


def model(name: str) -> object:
    """A golden model: a graph's path, `package.module:factory`, or an object of a module of models: "module object"."""
    if name.endswith(".onnx"):
        return DATA / name
    if " " not in name:
        return name
    module, attribute = name.split()
    return getattr(importlib.import_module(f"golden.{module}"), attribute)


def certificates(case: Mapping[str, Any]) -> list[ss.Certificate]:
    """What a case's Smoother certifies: one image by `certify`, several by `certify_all`."""
    images, labels = pictures()
    chosen = case["images"]
    with left_as_it_was():
        smooth = smoother(model(case["model"]), **case["smoother"])
        if len(chosen) == 1:
            (only,) = chosen
            return [smooth.certify(images[only], label=int(labels[only]), **case["certify"])]
        return list(smooth.certify_all(images[chosen], labels[chosen], **case["certify"]))


def smoother(source: object, sigma: str, grid: tuple[int, int] = (256, 255), **how: Any) -> ss.Smoother:
    """A Smoother; `grid` is the number of levels, and of levels per unit."""
    return ss.Smoother(source, sigma, grid=ss.Grid(*grid), **how)


def pictures() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / "images.npz") as held:
        return held["x"], held["y"]


def record(certificate: ss.Certificate) -> dict[str, Any]:
    """A certificate's JSON without the occasion."""
    return timeless(json.loads(certificate.to_json()))


def timeless(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in OF_THE_OCCASION}


def promise_of(certificate: ss.Certificate) -> str:
    """The text that was promised. Its SHA-256 must be the certificate's commitment."""
    text = certificate.promise.text
    assert hashlib.sha256(text.encode("ascii")).hexdigest() == certificate.commitment
    return text


# --- runs -------------------------------------------------------------------------------------------------------------


def exported(run: Path, to: Path) -> list[dict[str, Any]]:
    """The certificates of a run, without the occasion."""
    assert command("runs", "export", run, "--to", to).code == 0
    return [timeless(json.loads(line)) for line in to.read_text(encoding="utf-8").splitlines()]


def rows(run: Path, table: str) -> list[tuple[Any, ...]]:
    """A table of the run's file, which nobody has open, read past the program. Nothing is left beside the file."""
    assert not run.with_name(f"{run.name}-wal").exists()
    with closing(sqlite3.connect(f"file:{run}?immutable=1", uri=True)) as db:
        return sorted(db.execute(f"SELECT * FROM {table}"), key=repr)


def audit(*arguments: object, env: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """`verify --json`: the exit code, and the result without its prose and without the file's place."""
    done = command("verify", *arguments, "--json", env=env)
    return done.code, _without_prose(json.loads(done.stdout))


def _without_prose(found: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in found.items() if name not in ("target", "notes", "checks", "findings")}
    kept["checks"] = {check["name"]: check["passed"] for check in found["checks"]}
    kept["findings"] = found["findings"]["count"]
    if found["replay"] is not None:
        kept["replay"] = {name: value for name, value in found["replay"].items() if name != "what counts"}
    return kept


def numbers_shown(text: str) -> dict[str, Any]:
    """What `runs show` says, whatever its words: states with their numbers, the table's rows, the promise's values."""
    states = {name: int(count) for count, name in re.findall(r"(\d+) (certified|abstained|failed|to do)\b", text)}
    table = [row for row in (re.findall(r"\d+\.\d+", line) for line in text.splitlines() if "│" in line) if row]
    average = re.search(r"average certified radius\D*(\d+\.\d+)", text)
    promised = dict(re.findall(r"^([a-z][a-z0-9 ]*): +(\S.*)$", text, re.MULTILINE))
    commitment = re.search(r"[Cc]ommitment\W*([0-9a-f]{64})", text)
    return {
        "states": states,
        "accuracy": table,
        "average radius": average and average[1],
        "promise": promised,
        "commitment": commitment and commitment[1],
    }


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    table = parquet.read_table(path)
    return [{name: _exact(value) for name, value in row.items()} for row in table.to_pylist()]


def _exact(value: object) -> object:
    return value.hex() if isinstance(value, float) else value
