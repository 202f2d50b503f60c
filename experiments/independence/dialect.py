"""The dialect of the ONNX inspector as a table for docs/independence.md, made from the rules themselves.

    python experiments/independence/dialect.py docs/independence.md

puts it between the two marks there.
"""

import sys
from pathlib import Path

from soundsmooth.independence.proof.onnx_graph import DOMAINS
from soundsmooth.independence.proof.onnx_node import Rule
from soundsmooth.independence.proof.onnx_rules import MOST_OPERANDS

BEGIN, END = "<!-- the dialect, from the code -->", "<!-- end of the dialect -->"
HEADER = (
    "| operators | what happens to rows | must be constants | attributes, where they are given |\n|---|---|---|---|"
)


def table() -> str:
    """One line for each rule, of all domains."""
    lines = [HEADER]
    for domain, rules in DOMAINS.items():
        for rule in dict.fromkeys(map(id, rules.values())):
            names = [name for name, one in rules.items() if id(one) == rule]
            lines.append(_line(domain, names, rules[names[0]]))
    return "\n".join(lines)


def _line(domain: str, names: list[str], rule: Rule) -> str:
    prefix = f"{domain}: " if domain else ""
    attributes = "; ".join(f"`{name}`: {form.text}" for name, form in sorted(rule.attributes.items()))
    return f"| {prefix}{', '.join(names)} | {_rows(rule)} | {_constants(rule)} | {attributes or '–'} |"


def _rows(rule: Rule) -> str:
    """The first sentence of the rule's docstring."""
    text = " ".join((rule.flow.__doc__ or "").split())
    assert text, f"{rule.flow.__qualname__} has no docstring"
    extra = "" if rule.outputs is None else f" At most {rule.outputs} output."
    return text.partition(". ")[0].rstrip(".") + "." + extra


def _constants(rule: Rule) -> str:
    if not rule.constants:
        return "–"
    first, last = rule.constants[0], rule.constants[-1]
    if last == MOST_OPERANDS - 1:
        return "all operands" if first == 0 else f"operands from {first} on"
    return f"operands {first} to {last}"


def put(text: str) -> str:
    """The page with the table in its place."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(put(path.read_text()))
