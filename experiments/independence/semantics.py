"""What onnxruntime makes of attributes and integers outside the schema: like which lawful value each behaves.

    python experiments/independence/semantics.py [--operators Slice,Pad] [--calls 40] [--out table.txt]

For every operator some calls that run are drawn, and one attribute, or one operand of integers, is changed to something
that the definition does not have. The result is compared with those of lawful values: `=1` behaves as 1 does.
"""

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import schemas
import subject
from draws import EXTREMES, INTEGERS, arguments
from growth import Growth
from known import Call, Known, Refused
from workers import Death, Slate, results

FLAGS = (2, -1, 3, *EXTREMES[:3])
LAWFUL = (None, 0, 1)

Row = tuple[str, str, str]


def lists(entries: list[int], rank: int) -> dict[str, list[int]]:
    """Lists that are not what was asked for."""
    found = {"one more": [*entries, 1], "one more 0": [*entries, 0], "empty": []}
    if entries:
        found |= {
            "one less": entries[:-1],
            "last twice": [*entries, entries[-1]],
            "first negated": [-entries[0], *entries[1:]],
        }
        for number in (rank, rank + 1, -rank - 1, -1, 0, 2, *EXTREMES[:3]):
            found[f"first := {named(number, rank)}"] = [number, *entries[1:]]
    return found


def named(number: int, rank: int) -> str:
    names = {EXTREMES[0]: "INT32_MAX", EXTREMES[1]: "INT64_MAX", EXTREMES[2]: "INT64_MIN", rank: "rank"}
    names |= {rank + 1: "rank+1", -rank - 1: "-rank-1"}
    return names.get(number, str(number))


def probed(operator: tuple[str, str], calls: int, slate: Slate) -> Counter[tuple[Row, str]]:
    """What was seen of one operator."""
    seen: Counter[tuple[Row, str]] = Counter()
    for number in range(calls):
        growth = Growth(
            random.Random(f"semantics/{number}"), (operator,), (), lambda model: slate.write(0, "run", model)
        )
        growth.temper.wild, growth.temper.hidden = 0, 0
        schema = schemas.operator(*operator, growth.opset)
        if schema is None:
            continue
        try:
            call = arguments(growth, schema)
            outputs(growth, schema, call)
        except (Refused, LookupError, ValueError, TypeError):
            continue
        for row, label in [*_attributes(growth, schema, call), *_operands(growth, schema, call)]:
            seen[row, label] += 1
    return seen


def outputs(growth: Growth, schema: schemas.Operator, call: Call) -> list[np.ndarray] | None:
    """The outputs of a call; None if it is refused."""
    nodes, pool = len(growth.nodes), len(growth.pool)
    try:
        found = growth.add(schema.domain, schema.name, call.operands, call.attributes, call.outputs)
        return [known.value for known in found]
    except Refused:
        return None
    finally:
        del growth.nodes[nodes:], growth.pool[pool:]


def like(found: list[np.ndarray] | None, others: dict[str, list[np.ndarray] | None]) -> str:
    """The lawful value that a result is like."""
    if found is None:
        return "refused"
    names = [name for name, other in others.items() if other is not None and equal(found, other)]
    if len(names) == len([other for other in others.values() if other is not None]) and len(names) > 1:
        return "no difference"
    return "=" + "/".join(names) if names else f"another result {[list(one.shape) for one in found]}"


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(one, other, strict=True)
    )


def _attributes(growth: Growth, schema: schemas.Operator, call: Call) -> list[tuple[Row, str]]:
    found = []
    for one in schema.attributes:
        old = call.attributes.get(one.name)
        if one.type == "INT" and one.name != "to":
            others = {str(value): outputs(growth, schema, _with(call, one.name, value)) for value in LAWFUL}
            if old is not None:
                others.setdefault(str(old), outputs(growth, schema, call))
            for odd in FLAGS:
                result = outputs(growth, schema, _with(call, one.name, odd))
                found.append(((schema.title, one.name, named(odd, 99)), like(result, others)))
        elif one.type == "INTS":
            entries = [int(entry) for entry in old] if isinstance(old, list | tuple) else []
            others = {
                "as given": outputs(growth, schema, call),
                "absent": outputs(growth, schema, _with(call, one.name, None)),
            }
            rank = call.operands[0].rank if call.operands and call.operands[0] else 0
            for what, odd in lists(entries, rank).items():
                result = outputs(growth, schema, _with(call, one.name, odd))
                found.append(((schema.title, one.name, what), like(result, others)))
    return found


def _with(call: Call, name: str, value: object) -> Call:
    attributes = {key: old for key, old in call.attributes.items() if key != name}
    return Call(call.operands, attributes if value is None else {**attributes, name: value}, call.outputs)


def _operands(growth: Growth, schema: schemas.Operator, call: Call) -> list[tuple[Row, str]]:
    """The same for operands of integers, as constants and as values that are computed."""
    found = []
    for place, known in enumerate(call.operands):
        if place == 0 or known is None or known.type not in INTEGERS or not known.constant or known.rank > 1:
            continue
        name = schema.operands[min(place, len(schema.operands) - 1)].name
        others = {"as given": outputs(growth, schema, call)}
        rank = call.operands[0].rank if call.operands[0] else 0
        for what, odd in lists([int(entry) for entry in known.value.ravel()], rank).items():
            for way in ("constant", "computed"):
                try:
                    array = np.array(odd, known.value.dtype)
                except OverflowError:
                    continue
                array = array.reshape(()) if known.rank == 0 and array.size == 1 else array
                changed = growth.constant(array) if way == "constant" else Known("computed", array, array)
                operands = [*call.operands[:place], changed, *call.operands[place + 1 :]]
                result = outputs(growth, schema, Call(operands, call.attributes, call.outputs))
                found.append(((schema.title, f"{name} ({way})", what), like(result, others)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", default="")
    parser.add_argument("--calls", type=int, default=40)
    asked = parser.parse_args()
    wanted = set(asked.operators.split(",")) if asked.operators else set()
    table = [one for one in subject.table() if not wanted or one[1] in wanted]
    work = lambda number, slate: (table[number], probed(table[number], asked.calls, slate))  # noqa: E731
    for one in results(work, list(range(len(table))), 1):
        if isinstance(one, Death):
            print(f"DEATH {one.signal} {one.phase}")
            continue
        _, seen = one
        rows: dict[Row, list[str]] = {}
        for (row, label), count in sorted(seen.items(), key=lambda item: str(item[0])):
            rows.setdefault(row, []).append(f"{label} ×{count}")
        for row, labels in rows.items():
            if any(not label.startswith(("refused", "no difference")) for label in labels):
                print(" | ".join([*row, "; ".join(labels[:6])]))


if __name__ == "__main__":
    main()
