"""The house in numbers: its size, its names, its cycles, its long functions, and how far one image walks through it.

    python experiments/house/house.py                    # this checkout
    python experiments/house/house.py OLD NEW --walk     # two checkouts side by side, as a table in Markdown
    python experiments/house/house.py OLD NEW --rooms    # the walks too, with the rooms of the functions

The lab is left out of files and lines, since no certificate needs it. All else counts the whole package. Logical lines
are those that Python's tokenizer ends, without docstrings. A function's lines include its docstring. Complexity is one,
plus one for each branch, loop, handler, condition and further operand of `and` and `or`.

A walk counts the functions that run, their files, and how often the next call is in another file. Threads take turns
as they like, so the last number varies. Three walks are followed in one process: an image that is certified from Python
after a first one, a kept run of three images, and the replay of 5 % of it.
"""

import argparse
import ast
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType

from import_graph import cycles, graph_of, imports_of, module_paths

SHORT, LONG, COMPLEX, LONG_FILE = 20, 40, 15, 400
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.Assert, ast.match_case)
LAB = ("lab", "bench", "gallery", "unsound")  # the last three are where older checkouts have it
BY_ROOM = "functions by room"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Facts = dict[str, int | str]


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("roots", nargs="*", type=Path, default=[Path()], help="checkouts; default: this one")
    arguments.add_argument(
        "--walk", action="store_true", help="also follow three journeys; needs what the package needs"
    )
    arguments.add_argument(
        "--names", action="store_true", help="also say which: names, cycles, long functions and files"
    )
    arguments.add_argument("--rooms", action="store_true", help="follow the journeys, and count functions by room")
    arguments.add_argument("--journeys", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.journeys:
        print(json.dumps(journeys()))
        return
    roots = [root.resolve() for root in chosen.roots]
    follows = chosen.walk or chosen.rooms
    columns = [counts(root) | (walks(root, chosen.rooms) if follows else {}) for root in roots]
    print(f"| | {' | '.join(root.name for root in roots)} |\n|---|{'---:|' * len(roots)}")
    for fact in columns[0]:
        print(f"| {fact} | {' | '.join(str(column[fact]) for column in columns)} |")
    for root in roots if chosen.names else []:
        print(f"\n{root.name}\n{json.dumps(which(root), indent=1)}")


class House:
    """The source of a checkout."""

    def __init__(self, root: Path) -> None:
        self.package = root / "src" / "soundsmooth"
        self.texts = {name: path.read_text() for name, path in module_paths(self.package).items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.needed = [name for name in self.texts if name.partition(".")[0] not in LAB]

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """All nodes of all files, with their module."""
        return ((name, node) for name, tree in self.trees.items() for node in ast.walk(tree))

    def functions(self) -> dict[str, Function]:
        """The functions and methods by module, name and line."""
        found = ((name, node) for name, node in self.nodes() if isinstance(node, Function))
        return {f"{name}.{node.name}:{node.lineno}": node for name, node in found}

    def class_names(self, modules: Iterable[str]) -> Counter[str]:
        """How often the modules use each class name; a leading underscore makes no other name."""
        nodes = (node for module in modules for node in ast.walk(self.trees[module]))
        return Counter(node.name.lstrip("_") for node in nodes if isinstance(node, ast.ClassDef))

    def comments(self, words: str) -> int:
        """How many comments have these words."""
        return sum(words in each.string for text in self.texts.values() for each in _tokens(text, tokenize.COMMENT))


def counts(root: Path) -> Facts:
    """The numbers of a checkout."""
    house, names = House(root), which(root)
    functions = len(house.functions())
    return {
        "files": len(house.needed),
        "lines": sum(_line_count(house.texts[name]) for name in house.needed),
        "logical lines": sum(logical_lines(house.texts[name]) for name in house.needed),
        "files of the lab": len(house.texts) - len(house.needed),
        "classes": sum(house.class_names(house.needed).values()),
        "classes with the lab's": sum(house.class_names(house.texts).values()),
        "class names that stand for several classes": len(names["several"]),
        "cycles of modules": len(names["cycles"]),
        "functions": functions,
        f"functions of at most {SHORT} lines": f"{100 * (functions - len(names['not short'])) / functions:.1f} %",
        f"functions over {LONG} lines": len(names["long"]),
        f"functions of complexity over {COMPLEX}": len(names["complex"]),
        "lambdas": sum(isinstance(node, ast.Lambda) for _, node in house.nodes()),
        "`type: ignore`": house.comments("type: ignore"),
        "`noqa`": house.comments("noqa"),
        f"files over {LONG_FILE} lines": len(names["long files"]),
    }


def which(root: Path) -> dict[str, list[str]]:
    """The names behind the numbers."""
    house = House(root)
    functions = house.functions()
    return {
        "several": sorted(name for name, count in house.class_names(house.texts).items() if count > 1),
        "cycles": [" ".join(cycle) for cycle in cycles(graph_of(imports_of(house.package)))],
        "not short": [name for name, node in functions.items() if _length(node) > SHORT],
        "long": [name for name, node in functions.items() if _length(node) > LONG],
        "complex": [name for name, node in functions.items() if complexity(node) > COMPLEX],
        "long files": [name for name, text in house.texts.items() if _line_count(text) > LONG_FILE],
    }


def _line_count(text: str) -> int:
    return len(text.splitlines())


def _length(node: Function) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def complexity(node: ast.AST) -> int:
    """One, and one for each way to branch."""
    below = list(ast.walk(node))
    operands = sum(len(each.values) - 1 for each in below if isinstance(each, ast.BoolOp))
    return 1 + operands + sum(isinstance(each, BRANCHES) for each in below)


def logical_lines(text: str) -> int:
    """The statements' lines, without docstrings."""
    documented = ast.Module | ast.ClassDef | Function
    docstrings = sum(
        isinstance(node, documented) and ast.get_docstring(node) is not None for node in ast.walk(ast.parse(text))
    )
    return len(_tokens(text, tokenize.NEWLINE)) - docstrings


def _tokens(text: str, kind: int) -> list[tokenize.TokenInfo]:
    return [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == kind]


def walks(root: Path, rooms: bool) -> Facts:
    """How far the three journeys go in a checkout, in a process that imports its package."""
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, __file__, "--journeys"]
    done = subprocess.run(command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found.pop("home")) == root / "src" / "soundsmooth", "another package was followed"
    steps = {(walk, what): count for walk, steps in found.items() for what, count in steps.items()}
    return {f"{walk}: {what}": count for (walk, what), count in steps.items() if rooms or what != BY_ROOM}


class Walk:
    """Counts the package's functions that are called, their files and the changes of file, in all threads."""

    def __init__(self, home: Path) -> None:
        self.home, self.functions, self.last, self.changes = str(home), set[tuple[str, str]](), "", 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_NEWLOCALS and not code.co_name.startswith("<")  # and no class's body
        if event != "call" or not is_function or not code.co_filename.startswith(self.home):
            return
        self.functions.add((code.co_filename, code.co_qualname))
        self.changes += code.co_filename != self.last
        self.last = code.co_filename

    def steps(self) -> Facts:
        files = {file for file, _ in self.functions}
        rooms = Counter(Path(file).relative_to(self.home).parts[0].removesuffix(".py") for file, _ in self.functions)
        by_room = ", ".join(f"{room} {count}" for room, count in rooms.most_common())
        return {
            "functions": len(self.functions),
            "files": len(files),
            "changes of file": self.changes,
            BY_ROOM: by_room,
        }


def follow(journey: Callable[[], object]) -> Facts:
    """The steps of a journey."""
    import soundsmooth

    walk = Walk(Path(soundsmooth.__file__).parent)
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk.steps()


def journeys() -> dict[str, Facts | str]:
    """The steps of all three."""
    import numpy as np

    import soundsmooth as ss

    home = Path(ss.__file__).parent
    (model,), (images,) = home.rglob("fashion_mnist_sigma0.25.onnx"), home.rglob("fashion_mnist.npz")
    with np.load(images) as data:
        image = data["x"][0]
    smooth = ss.Smoother(model, "0.25", threads=1)
    smooth.certify(image, n=1000)
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run.db"
        return {
            "one image": follow(lambda: smooth.certify(image, n=1000)),
            "`certify --out`": follow(lambda: _command("certify", "--limit", "3", "--n", "2000", "--out", run)),
            "`verify --replay`": follow(lambda: _command("verify", run, "--replay", "5%")),
            "home": str(home),
        }


def _command(*words: str) -> None:
    from soundsmooth.cli.main import main as command_line

    sys.argv = ["soundsmooth", *words]
    with redirect_stdout(io.StringIO()):
        try:
            command_line()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{' '.join(words)} ended with {end.code}") from None


if __name__ == "__main__":
    main()
