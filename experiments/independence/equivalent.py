"""Checks that can go without any graph that the runtime runs being proved wrongly, and why.

These mutants are told apart from those that are missed: the first entry whose text a mutant's name begins with counts,
and only for a mutant that was not found. Kinds:

- ASSERTION: it fires only where a rule and the runtime disagree, which is a finding in itself;
- RUNTIME: the runtime refuses the graph before;
- IMPLIED: another check, or the line after it, refuses the same graphs; it is there for its text, or for types;
- SAME: what it would admit the rule treats as the runtime does, or in a way that rows cannot notice;
- OUTSIDE: it speaks of what random graphs do not have (the optimizer's own nodes, the caller's shape);
- MEASURED: no operator of the table was seen to do on this processor what it is there for.
"""

ASSERTION, RUNTIME, IMPLIED, SAME, OUTSIDE = "assertion", "runtime", "implied", "same", "outside"
MEASURED = "measured"

_TYPES = "attributes have the type that the schema, or the runtime's own, gives them; the forms say so once more"
_SEEN = "whatever it is, axis 0 is not touched, and the shape is the one that was seen"
_BOTH = "the line after it raises ValueError or LookupError then, which is a refusal"
_COUNTS = "the runtime holds nodes to its own schemas when it loads a graph"
_DIGITS = "no operator of the table changes the last digits of other rows in double; Sin and Cos do, without a rule"
_WINDOWS = "of 5000 convolutions with other lists behind a hidden rank none mixed rows; pools refuse them"
_NO_ROWS = "its operand is a scalar or has another type: rows that are proved cannot be one, others stay unproved"

REASONS: tuple[tuple[str, str, str], ...] = (
    # values
    ("values.Results without `found is None`", RUNTIME, "only Split's results may lack a name, and it asks"),
    ("values.Results without", ASSERTION, "a shape that the rule does not expect"),
    ("values.integers without `value.entries is None`", IMPLIED, "such constants are always looked into"),
    ("values.integers without `value.rank", SAME, "refused but for Pad, which flattens it as well"),
    ("values.axis_of", RUNTIME, "axes out of range are refused; for attributes the forms say so too"),
    ("values.axes_of without `len(set", SAME, "axes are taken as a set; the runtime refuses them in Slice"),
    # flow
    ("flow.elementwise without `len(places)", IMPLIED, _BOTH),
    ("flow.same_shape without", IMPLIED, "the result is compared with what was seen"),
    ("flow.dropped", IMPLIED, "`along` has refused before; here for torch"),
    ("flow.transposed", RUNTIME, "perm must be a permutation; the form says so too"),
    ("flow.tiled without `len", RUNTIME, "one number of repeats for each axis is asked for"),
    ("flow.concatenated without `len(places)", IMPLIED, _BOTH),
    ("flow.concatenated without `any", RUNTIME, "ranks must be equal"),
    ("flow.concatenated without `len({", RUNTIME, "the other extents must be equal"),
    ("flow.product_of_matrices without `left.rank", IMPLIED, _BOTH),
    ("flow.product_of_matrices without `right.rank", RUNTIME, "scalars are refused"),
    ("flow.product_of_matrices without `left.shape", RUNTIME, "matrices that do not fit are refused"),
    ("flow.summed without `arrow`", IMPLIED, "nothing stays then: the batch's letter does not either"),
    ("flow.summed without `''.join", IMPLIED, "of others only dots run, three in a term: repeated"),
    ("flow.summed without `len(terms)", RUNTIME, "one term for each operand is asked for"),
    ("flow.summed without `letter not in right`", IMPLIED, _BOTH),
    ("flow.summed without `len(term)", IMPLIED, _BOTH),
    # nodes and the dialect
    ("onnx_node.Node without `value is None`", IMPLIED, "the schema asks for it; here for types"),
    ("onnx_node.Node without", IMPLIED, _TYPES),
    ("onnx_dialect.check without `problem", IMPLIED, "the file was held to it; here for the optimizer"),
    ("onnx_dialect._miscounted", RUNTIME, _COUNTS),
    ("onnx_dialect.check without `form.fits", IMPLIED, "flags: `hopeless` refuses the file; other forms: see each"),
    ("onnx_dialect.odd_flag", IMPLIED, "`check` refuses it in the graph that runs; what was folded is a constant"),
    ("onnx_dialect._integer without `value in", IMPLIED, "`hopeless` refuses the file"),
    ("onnx_dialect._is_axis without `isinstance", IMPLIED, _TYPES),
    ("onnx_dialect._is_axis", SAME, "of rows the runtime refuses it; only scalars, which are constants, are let pass"),
    ("onnx_dialect._are_axes without `len", IMPLIED, "`axes_of` refuses it; Squeeze: the shape was seen"),
    ("onnx_dialect._are_axes without `all", SAME, "the runtime refuses it, or the shape was seen"),
    ("onnx_dialect.NUMBER without `isfinite", SAME, "a parameter that is the same for all rows, whatever it is"),
    ("onnx_dialect.NUMBERS_LISTED without `all", SAME, "a parameter that is the same for all rows, whatever it is"),
    ("onnx_dialect.TYPE without `value in", MEASURED, _DIGITS),
    ("onnx_dialect.COUNT without `1 <=", SAME, _SEEN),
    ("onnx_dialect.COUNT without `value < MOST", SAME, _SEEN),
    ("onnx_dialect.CUT", RUNTIME, "Flatten refuses axes out of range"),
    ("onnx_dialect.PERMUTATION without `sorted", RUNTIME, "perm must be a permutation"),
    ("onnx_dialect._integer without `isinstance", IMPLIED, _TYPES),
    *(
        (f"onnx_dialect.{form} without `{text}", IMPLIED, _TYPES)
        for form, text in (
            ("_integers", "isinstance"), ("_are_axes", "isinstance"), ("NUMBER", "isinstance"), ("COUNT", "isinstance"),
            ("NUMBERS_LISTED", "isinstance"), ("TYPE", "isinstance"), ("NEW_AXES", ""), ("PERMUTATION", "isinstance"),
            ("LISTED", ""),
        )
    ),
    ("onnx_dialect._integers without", MEASURED, _WINDOWS),
    # rules
    ("onnx_rules._clip", SAME, "bounds of one entry and any rank are broadcast; the runtime refuses others"),
    ("onnx_rules._slice without `len", RUNTIME, "lists of different lengths are refused"),
    ("onnx_rules._own_entries without `entries is None`", IMPLIED, "indices are int32 or int64: always looked into"),
    ("onnx_rules._own_entries without `batch not in", IMPLIED, _BOTH),
    ("onnx_rules._pad without `len", RUNTIME, "two pads for each axis are asked for"),
    ("onnx_runtime._skip_layer_norm without `skip.shape", RUNTIME, "the skip must have the same last two axes"),
    ("onnx_runtime._skip_layer_norm without `value.rank", RUNTIME, "it takes two or three axes"),
    ("onnx_runtime._image", OUTSIDE, "the optimizer writes these, and only for images"),
    # graphs
    ("onnx_graph._apply without `all", SAME, "Dropout on constants: training is refused elsewhere"),
    ("onnx_graph._apply without `any((value.double", MEASURED, _DIGITS),
    ("onnx_graph._apply without `any((0 in", SAME, "what has no entries has nothing that could differ"),
    ("onnx_graph.hopeless without `problem", IMPLIED, "`check` refuses it in the graph that runs"),
    ("onnx_graph.hopeless without `node.op_type", IMPLIED, "`_rule` refuses it in the graph that runs"),
    ("onnx_graph._domain", SAME, "without it more is refused"),
    ("onnx_graph._opset without `proto.functions", IMPLIED, "calls of functions have no rule"),
    ("onnx_graph._opset without `proto.training_info", SAME, "the runtime does not look at it"),
    ("onnx_graph._opset without `proto.graph.sparse", IMPLIED, "`_check_names`: the name is not defined"),
    ("onnx_graph._opset without `FIRST", SAME, "of older opsets, what runs does the same with rows"),
    ("onnx_graph._opset without `opsets[0] <= LAST", SAME, "opset 26, the last that runs, changed nothing drawn"),
    ("onnx_graph._opset without `_check_fields", SAME, "this runtime ignores unknown fields; another need not"),
    ("onnx_graph._check_fields", SAME, "this runtime ignores unknown fields; another need not"),
    ("onnx_graph._only_input without `len(graph.input)", OUTSIDE, "such a graph cannot vote: one batch is fed"),
    ("onnx_graph._only_input without `len(entry", OUTSIDE, "inputs are drawn with two axes at least"),
    ("onnx_graph._only_input without `entry.type", RUNTIME, "floats are fed"),
    ("onnx_graph._check_names without `tensor.data_location", RUNTIME, "what lies outside cannot be loaded from bytes"),
    ("onnx_graph._check_names without `tensor.data_type", RUNTIME, "operators with a rule take numbers"),
    ("onnx_graph._check_names without `_define(defined, tensor", SAME, "the entries are those that were seen"),
    ("onnx_graph._check_names without `_define", RUNTIME, "a duplicate definition is refused"),
    ("onnx_graph._define", SAME, "computed twice is refused; of constants the entries are those that were seen"),
    ("onnx_graph._rule without `extra", SAME, "the only such field, overload, is ignored where there are no functions"),
    ("onnx_graph._rule without `domain == INTERNAL", IMPLIED, "`hopeless` refuses the file"),
    ("onnx_graph._attributes without `attribute.name", IMPLIED, "the schema check refuses it; here for com.microsoft"),
    ("onnx_graph._attributes without `attribute.ref", SAME, "outside of functions the runtime reads the value itself"),
    ("onnx_graph.inputs_fit", OUTSIDE, "the fuzzer asks for the shape that the graph declares"),
    # schemas
    ("onnx_schema.suspicious", OUTSIDE, "it decides only where a model is tried first"),
    ("onnx_schema._may_kill", OUTSIDE, "it decides only where a model is tried first"),
    ("onnx_schema.malformed without `len(versions)", IMPLIED, "`_opset` refuses it"),
    ("onnx_schema._attributes", RUNTIME, _COUNTS),
    ("onnx_schema._side without `len", RUNTIME, _COUNTS),
    # forms as wholes
    *(
        (f"form {form} admits", RUNTIME, "other values are refused when the graph is loaded or run")
        for form in ("ACTIVATION", "ALL_PADS", "CUT", "GELU", "PADDING", "PERMUTATION")
    ),
    *((f"form {form} admits", IMPLIED, _TYPES) for form in ("INTEGER", "LISTED", "NEW_AXES", "TENSOR", "TEXT")),
    *((f"form {form} admits", SAME, _SEEN) for form in ("AXES", "AXIS", "COUNT", "EDGES", "PARTS")),
    ("form TYPE admits", MEASURED, _DIGITS),
    *((f"form {form} admits", MEASURED, _WINDOWS) for form in ("PADS", "SIZES")),
    ("form NUMBER", SAME, "a parameter that is the same for all rows, whatever it is"),
    ("form OFF", SAME, "storage_order: of indices alone; training_mode: refused with one output"),
    ("form ONE", SAME, "stash_type: the precision inside a row"),
    # tables
    *((f"table {name} without constants", SAME, _NO_ROWS) for name in ("Clip", "Dropout", "CumSum", "Trilu")),
    ("table Constant without constants", SAME, "it has no operands"),
    *(
        (f"table {name} without constants", SAME, "it is elementwise in its parameters, and so is the rule: row by row")
        for name in (
            "LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization", "Gemm", "com.microsoft.FusedGemm",
            "com.microsoft.BiasGelu", "com.microsoft.FastGelu",
        )
    ),
    ("table com.microsoft.nchwc.", OUTSIDE, "the optimizer writes these, and only with constants for weights"),
)  # fmt: skip


def reason(mutant: str) -> tuple[str, str] | None:
    """Why a mutant cannot be found: kind and text; None if nothing is known that says so."""
    if " without operands=" in mutant:
        return RUNTIME, _COUNTS
    return next(((kind, why) for text, kind, why in REASONS if mutant.startswith(text)), None)
