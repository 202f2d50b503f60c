"""The table of rooms in CONTRIBUTING.md is the import graph, and the graph has no cycles."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from scripts import script

graph = script("house/import_graph.py")

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "soundsmooth"
IMPORTS = graph.imports_of(PACKAGE)

#: `soundsmooth/__init__.py` is no room: it finds public names when they are first used, and all may ask its version.
DOOR = "__init__"

Table = dict[str, list[str]]


def rooms_of(page: str) -> Table:
    """The table of rooms: what each room may know, by the room's name, in the page's order."""
    section = page.partition("## The rooms")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {_names(room)[0]: _names(known) for room, _, known in rows[2:]}


def _names(cell: str) -> list[str]:
    return [name.replace("/", ".") for name in re.findall(r"`([^`]+)`", cell)]


def room_of(module: str, rooms: Iterable[str]) -> str:
    """The room with the longest name that the module's begins with; a module outside of all of them is a room."""
    inside = [room for room in rooms if f"{module}.".startswith(f"{room}.")]
    return max(inside, key=len, default=module)


def room_graph(imports: Iterable, rooms: Iterable[str]) -> dict[str, set[str]]:
    """What each room imports of others."""
    found: dict[str, set[str]] = {}
    for each in imports:
        here, there = room_of(each.importer, rooms), room_of(each.imported, rooms)
        if here != there and DOOR not in (here, there):
            found.setdefault(here, set()).add(there)
    return found


TABLE = rooms_of((ROOT / "CONTRIBUTING.md").read_text())
ROOMS = room_graph(IMPORTS, TABLE)


def test_every_module_is_in_a_room() -> None:
    homeless = {name for name in graph.module_paths(PACKAGE) if room_of(name, TABLE) not in TABLE}
    assert homeless == {DOOR}


@pytest.mark.parametrize("room", TABLE)
def test_a_room_knows_what_the_table_says(room: str) -> None:
    """No more, and no less: a permission that nobody uses is not true either."""
    assert ROOMS.get(room, set()) == set(TABLE[room])


def test_a_room_knows_only_rooms_before_it() -> None:
    order = list(TABLE)
    for room, known in ROOMS.items():
        assert [each for each in known if order.index(each) >= order.index(room)] == [], room
    assert graph.cycles(ROOMS) == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert graph.cycles(graph.graph_of(IMPORTS)) == []


def test_only_the_command_line_imports_the_lab_and_only_when_it_is_asked_to() -> None:
    """A command loads its screen inside a function. Screens of the lab load the lab; starting `cli.main` does not."""
    inside = {name for name in graph.module_paths(PACKAGE) if room_of(name, TABLE) == "lab"}
    doors = {each.importer for each in IMPORTS if each.imported in inside} - inside
    assert {room_of(name, TABLE) for name in doors} == {"cli"}
    at_the_start = graph.reached(graph.graph_of(each for each in IMPORTS if not each.lazy), "cli.main")
    assert "cli.options" in at_the_start
    assert at_the_start & inside == set()
    assert "lab.bench.cpu" in graph.reached(graph.graph_of(IMPORTS), "cli.main")


def outside_imports(room: str) -> set[str]:
    """The first names of all absolute imports in a room."""
    found = set()
    for name, path in graph.module_paths(PACKAGE).items():
        if room_of(name, TABLE) == room:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    found.add(str(node.module).partition(".")[0])
    return found


def test_only_exact_imports_flint() -> None:
    assert [room for room in TABLE if "flint" in outside_imports(room)] == ["exact"]


# That the tests above can fail: a package of four files, in each way in which it could be wrong.

PAGE = """
## The rooms

| room | what lives there | may know |
|---|---|---|
| `low` | numbers | nothing |
| `low/inner` | a room of its own | `low` |
| `high` | a file | `low/inner` |

## The rest
"""


def small_package(folder: Path, **texts: str) -> list:
    package = folder / "package"
    (package / "low" / "inner").mkdir(parents=True)
    for name in ("__init__", "low/__init__", "low/inner/__init__", "low/a", "low/b", "low/inner/c", "high"):
        (package / f"{name}.py").write_text(texts.get(name.replace("/", "_"), ""))
    return graph.imports_of(package)


def test_the_table_is_read() -> None:
    assert rooms_of(PAGE) == {"low": [], "low.inner": ["low"], "high": ["low.inner"]}
    assert room_of("low.inner.c", rooms_of(PAGE)) == "low.inner"
    assert room_of("low.innermost", rooms_of(PAGE)) == "low"
    assert room_of("lowest", rooms_of(PAGE)) == "lowest"


@pytest.mark.parametrize(
    ("text", "imported", "lazy"),
    [
        ("from .low.inner import c", "low.inner.c", False),
        ("from .low.inner.c import name", "low.inner.c", False),
        ("from . import low", "low.__init__", False),
        ("import package.low.a", "low.a", False),
        ("from package.low import name", "low.__init__", False),
        ("def f():\n    from .low.a import name", "low.a", True),
        ("class C:\n    def f(self):\n        if self:\n            from .low.a import name", "low.a", True),
        ("if TYPE_CHECKING:\n    from .low import a\nelse:\n    import package.low.b", "low.b", False),
    ],
)
def test_an_import_is_seen(tmp_path: Path, text: str, imported: str, lazy: bool) -> None:
    assert small_package(tmp_path, high=text) == [graph.Import("high", imported, lazy)]


def test_imports_for_types_do_not_count(tmp_path: Path) -> None:
    assert small_package(tmp_path, high="import typing\nif typing.TYPE_CHECKING:\n    from .low import a") == []


def test_circles_are_seen(tmp_path: Path) -> None:
    found = small_package(
        tmp_path, low_a="from . import b", low_b="def f():\n    from ..high import x", high="from .low import a"
    )
    assert graph.cycles(graph.graph_of(found)) == [["high", "low.a", "low.b"]]
    assert graph.cycles(room_graph(found, rooms_of(PAGE))) == [["high", "low"]]
