"""The file of a run's tuned kernels: beside the run, or where the user says."""

import os
from pathlib import Path
from secrets import token_hex
from typing import Any

from ..certification.promise import Promise
from ..core.plain_files import MissingFileError, read_plain
from ..models.artifact import Artifact
from ..models.compiled import AUTO, TUNED
from .output import check_folder
from .stored import RunTerms

SUFFIX = ".artifact"
#: More bytes than kernels have.
MOST_OF_AN_ARTIFACT = 1 << 30


def artifact_path(run: Path) -> Path:
    """Where the tuned kernels of the run in this file are kept."""
    return run.with_name(run.name + SUFFIX)


def chosen_way(begun: RunTerms | None, compilation: str, path: Path | None, named: bool = False) -> dict[str, Any]:
    """The options `compile` and `artifact` of a model: those of the run that has begun, or as they are chosen.

    A run that begins with tuned kernels takes those in the file, if it is there. A file that the user `named` is for
    tuned kernels only: otherwise it is a ValueError, since the kernels would not vote.
    """
    promised = compilation if begun is None else begun.promise.flags.get("compile", "none")
    if compilation not in (AUTO, promised):
        raise ValueError(f"the run was begun with compile {promised}, and a run that has begun cannot change")
    if named and promised != TUNED:
        raise ValueError(f"an artifact goes with compile tuned, and this is {promised}: choose that, or leave it out")
    if begun is not None:
        return {"compile": promised, "artifact": promised_artifact(path, begun.promise)}
    kept = path if compilation == TUNED else None
    there = None if kept is None else _read_artifact(kept)
    if kept is not None and there is None:
        check_folder(kept)  # before minutes of tuning
    return {"compile": compilation, "artifact": there}


def promised_artifact(path: Path | None, promise: Promise) -> bytes | None:
    """The artifact that a promise names, from its file; None if it names none. A ValueError if it is not there."""
    wanted = promise.flags.get("artifact")
    if wanted is None:
        return None
    content = None if path is None else _read_artifact(path)
    if content is None:
        raise ValueError(
            f"{str(path)!r} is missing: it holds the tuned kernels that the run has promised. Put it back, or begin "
            "another run"
        )
    if Artifact.of(content).digest != wanted:
        raise ValueError(
            f"{str(path)!r} does not hold the tuned kernels that the run has promised. Put the right file back, or "
            "begin another run"
        )
    return content


def keep_artifact(path: Path, content: bytes) -> None:
    """Write the file, unless it holds this already; whole or not at all. A ValueError if it holds another one.

    Guarantee: a file that is there stays as it is, also where two processes write at once.
    """
    there = _read_artifact(path)
    if (_written(path, content) if there is None else there) != content:
        raise ValueError(
            f"{str(path)!r} holds other tuned kernels: name another file, or delete this one if no run has promised it"
        )


def _written(path: Path, content: bytes) -> bytes | None:
    """What is in the file, after this was written if there was none."""
    part = path.with_name(f"{path.name}.{token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        try:
            os.link(part, path)
        except FileExistsError:
            return _read_artifact(path)
        except OSError:  # the file system has no hard links
            part.replace(path)
        return content
    finally:
        part.unlink(missing_ok=True)


def _read_artifact(path: Path) -> bytes | None:
    """The artifact in a file; None if there is no file, a ValueError if it holds anything else. No code is run."""
    try:
        content = read_plain(path, "artifact", MOST_OF_AN_ARTIFACT)
    except MissingFileError:
        return None
    try:
        Artifact.of(content)
    except ValueError as error:
        raise ValueError(f"{str(path)!r}: {error}") from None
    return content
