"""What the operator schemas say: operands, attributes and outputs of an operator in an opset.

Schemas come from onnx; those that only onnxruntime knows (com.microsoft, and a few of its own in the default domain)
come from onnxruntime. Nothing here is written by hand.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnxruntime.capi import _pybind_state as runtime


@dataclass(frozen=True)
class Operand:
    """One operand or output of an operator."""

    name: str
    option: str
    """Single, Optional or Variadic."""
    types: frozenset[str]
    """As the schemas write them: tensor(float) …"""


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operator."""

    name: str
    type: str
    """INT, INTS, FLOAT, STRING, TENSOR …"""
    required: bool


@dataclass(frozen=True)
class Operator:
    """An operator as one opset defines it."""

    domain: str
    name: str
    operands: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attributes: tuple[Attribute, ...]

    @property
    def title(self) -> str:
        return f"{self.domain}.{self.name}" if self.domain else self.name


@cache
def operator(domain: str, name: str, opset: int) -> Operator | None:
    """The operator in this opset of the default domain; None if there is none."""
    try:
        schema: Any = onnx.defs.get_schema(name, 1 if domain else opset, domain)
    except onnx.defs.SchemaError:
        schema = _of_runtime().get((domain, name))
    if schema is None or schema.deprecated:
        return None
    attributes = tuple(Attribute(key, _last(one.type), one.required) for key, one in schema.attributes.items())
    return Operator(domain, name, _operands(schema.inputs), _operands(schema.outputs), attributes)


@cache
def _of_runtime() -> dict[tuple[str, str], Any]:
    """Schemas that onnxruntime has of its own, first versions only."""
    return {(one.domain, one.name): one for one in runtime.get_all_operator_schema() if one.since_version == 1}


def _operands(formal: Any) -> tuple[Operand, ...]:
    return tuple(Operand(one.name, _last(one.option), _types(one)) for one in formal)


def _types(formal: Any) -> frozenset[str]:
    """Of onnxruntime's own operators the types are not told: floats, or what the name of the type says."""
    named = getattr(formal, "type_str", None) or formal.typeStr
    found = getattr(formal, "types", None)
    return frozenset(found) if found else frozenset({named if "(" in named else "tensor(float)"})


def _last(name: Any) -> str:
    return str(name).rsplit(".", 1)[-1]


@cache
def strangers() -> tuple[str, ...]:
    """Every operator of the default domain, for those that no rule knows."""
    return tuple(sorted({one.name for one in onnx.defs.get_all_schemas() if one.domain == ""}))
