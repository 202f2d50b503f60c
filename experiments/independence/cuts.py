"""Where the sources check something: each place becomes a switch (`switches`), in a copy of the package.

A check is

- a condition of giving up: of a `raise`, of `return False`, of returning the text of a problem. Each of its
  alternatives is one, and each bound of a comparison with two;
- what a function that says yes or no asks for, as the forms of attributes do, each conjunct for itself;
- a call that only may refuse: a statement of its own, or `along` and `same_shape`, which give their operand back.

Left out are raises that a function ends with, or that stand for another exception: without them there is no result.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: The modules that the argument for ONNX graphs stands in.
MODULES = {
    name: Path("soundsmooth", "independence", "proof", f"{name}.py")
    for name in (
        *("values", "flow", "onnx_node", "onnx_dialect", "onnx_rules", "onnx_runtime", "onnx_graph"),
        "onnx_schema",
    )
}
#: Functions that give their first operand back, or refuse.
TRANSPARENT = frozenset(("along", "same_shape"))
#: Methods that change what they are called on, and refuse nothing.
METHODS = frozenset(("add", "append", "extend", "update", "setdefault", "_define"))
#: Functions that say yes to what is to be refused, or kept apart.
SUSPECTING = frozenset(("suspicious", "_may_kill"))
#: Functions that only name things for people.
NAMING = frozenset(("_shown", "_title", "_called", "_between", "_domain"))
#: What is returned where something is given up.
GIVEN_UP = frozenset(("broken",))


@dataclass
class Cuts:
    """The switches of one module."""

    module: str
    names: list[str] = field(default_factory=list)
    changed: dict[int, ast.expr | ast.stmt] = field(default_factory=dict)
    where: str = ""
    whole: set[str] = field(default_factory=set)
    """Names of conditions whose parts are switches already."""

    # Which places. ------------------------------------------------------------------------------------------------

    def find(self, tree: ast.Module) -> None:
        for top in tree.body:
            self.where = getattr(top, "name", "") or _assigned(top)
            for node in ast.walk(top) if self.where not in NAMING else ():
                self._place(node)

    def _place(self, node: ast.AST) -> None:
        if isinstance(node, ast.If) and _gives_up(node.body):
            self.refusing(node.test)
        elif isinstance(node, ast.For):
            for inner in node.body:
                if isinstance(inner, ast.If) and isinstance(inner.body[0], ast.Return) and not _gives_up(inner.body):
                    self.admitting(inner.test)
        elif isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and not isinstance(inner.value, ast.Constant):
                    (self.refusing if node.name in SUSPECTING else self.admitting)(inner.value)
                elif isinstance(inner, ast.If) and node.name in SUSPECTING and isinstance(inner.body[0], ast.Return):
                    self.refusing(inner.test)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            self.admitting(node.value)
            self.whole |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.IfExp) and _is_text(node.value.body):
            self.refusing(node.value.test)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._statement(node.value)

    def _call(self, node: ast.Call) -> None:
        name = _called(node)
        if name == "Form":
            for inner in node.args:
                if isinstance(inner, ast.Lambda) and isinstance(inner.body, ast.BoolOp):
                    self.admitting(inner.body)
        elif name in TRANSPARENT:
            self._replace(node, node.args[0])

    def _statement(self, node: ast.Call) -> None:
        """A call whose result nobody takes."""
        if _called(node) not in METHODS:
            self._replace(node, ast.Constant(None))

    # What becomes of them. ----------------------------------------------------------------------------------------

    def refusing(self, test: ast.expr | None) -> None:
        """A condition of giving up, or its alternatives."""
        if isinstance(test, ast.Call) and _called(test) == "bool":
            test = test.args[0]
        assert test is not None
        if isinstance(test, ast.BoolOp):
            alternatives = isinstance(test.op, ast.Or)
            inner = test.values if alternatives else [one for one in test.values if _is_or(one)]
            for one in inner:
                self.refusing(one)
            if inner:
                return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.admitting(test.operand)
        self._part(test, False)

    def admitting(self, test: ast.expr | None) -> None:
        """A condition of going on: each conjunct, each bound."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for one in test.values:
                self.admitting(one)
        elif isinstance(test, ast.Compare) and len(test.ops) > 1:
            self._links(test)
        elif _is_all_of(test):
            self._conjuncts(test.func.value)  # type: ignore[union-attr]
        elif test is not None:
            self._part(test, True)

    def _conjuncts(self, test: ast.expr) -> None:
        if isinstance(test, ast.BinOp) and isinstance(test.op, ast.BitAnd):
            self._conjuncts(test.left)
            self._conjuncts(test.right)
        else:
            self._part(test, True)

    def _links(self, test: ast.Compare) -> None:
        sides = [test.left, *test.comparators]
        links = [ast.Compare(sides[n], [one], [sides[n + 1]]) for n, one in enumerate(test.ops)]
        self.changed[id(test)] = ast.BoolOp(ast.And(), [_switched(self._name(one), one, True) for one in links])

    def _part(self, test: ast.expr, without: bool) -> None:
        if not isinstance(test, ast.Constant) and not (isinstance(test, ast.Name) and test.id in self.whole):
            self.changed[id(test)] = _switched(self._name(test), test, without)

    def _replace(self, node: ast.Call, other: ast.expr) -> None:
        if id(node) in self.changed:
            return
        sides = [ast.Lambda(_no_arguments(), one) for one in (node, other)]
        self.changed[id(node)] = ast.Call(_of_switch("call"), [ast.Constant(self._name(node)), *sides], [])

    def _name(self, node: ast.expr) -> str:
        name = f"{self.module}.{self.where} without `{ast.unparse(node)}`"
        count = sum(one == name or one.startswith(f"{name} #") for one in self.names)
        self.names.append(f"{name} #{count + 1}" if count else name)
        return self.names[-1]


class _Rewrite(ast.NodeTransformer):
    """Puts each switch in its place; what it holds is a place of its own, perhaps."""

    def __init__(self, changed: dict[int, ast.expr | ast.stmt]) -> None:
        self.changed = changed

    def visit(self, node: ast.AST) -> ast.AST:
        new = self.changed.pop(id(node), None)
        return super().generic_visit(node if new is None else new)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _assigned(top: ast.stmt) -> str:
    targets = getattr(top, "targets", [getattr(top, "target", None)])
    return str(getattr(targets[0], "id", "")) if targets else ""


def _gives_up(body: list[ast.stmt]) -> bool:
    """A raise, or the return of a problem, and nothing else."""
    if len(body) != 1 or isinstance(body[0], ast.Raise):
        return len(body) == 1
    value = body[0].value if isinstance(body[0], ast.Return) else None
    if isinstance(value, ast.Name) and value.id == "found":
        return True
    names = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)} if value else set()
    return (isinstance(value, ast.Constant) and value.value is False) or _is_text(value) or bool(names & GIVEN_UP)


def _is_text(value: ast.expr | None) -> bool:
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _is_or(test: ast.expr) -> bool:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)


def _is_all_of(test: ast.expr | None) -> bool:
    """(… & …).all()"""
    return (
        isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and isinstance(test.func.value, ast.BinOp)
    )


def _of_switch(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("_switches", ast.Load()), name, ast.Load())


def _switched(name: str, test: ast.expr, without: bool) -> ast.expr:
    return ast.Call(_of_switch("part"), [ast.Constant(name), test, ast.Constant(without)], [])


def _no_arguments() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def rewritten(module: str, source: str) -> tuple[str, list[str]]:
    """The source of a module with a switch at each check, and the switches' names."""
    tree = ast.parse(source)
    cuts = Cuts(module)
    cuts.find(tree)
    changed = _Rewrite(cuts.changed).visit(tree)
    assert isinstance(changed, ast.Module)
    changed.body.insert(1, ast.parse("import switches as _switches").body[0])
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n", cuts.names


def install(folder: Path) -> Iterator[str]:
    """Switches in a copy of the package; their names."""
    for module, path in MODULES.items():
        source, names = rewritten(module, (folder / path).read_text())
        (folder / path).write_text(source)
        yield from names
