"""Checks of the torch inspector that no graph can miss, and why: mutants without them are not counted."""

REFUSED = "torch refuses such a call before the rule sees it"
FAILS = "without it the rule fails in the next lines, which is no proof either"
SECOND = "a second line: it speaks only if a rule is wrong about a shape, and then as a contradiction"
ONNX = "only rules for ONNX graphs come to it"
EXPORT = "torch.export gives no such graph, and the fuzzer draws none"
IMPLIED = "another check implies it"

COPIES = "it always copies: the table is stricter than it must be"

#: By the name of the mutant, without the line.
EQUAL: dict[str, str] = {
    "values.axis_of without `not -rank <= axis < rank`": REFUSED,
    "values.axes_of without `not found`": ONNX,
    "values.axes_of without `len(set(found)) != len(found)`": ONNX,
    "values.alike without `value.entries is None`": FAILS,
    "values.shape without `found is None`": ONNX,
    "values.result without `axis is None`": SECOND,
    "values.result without `axis >= len(shape)`": SECOND,
    "values.result without `shape[axis] % (outer * self.batch)`": SECOND,
    "values.checked without `value.shape != self.shape(number)`": SECOND,
    "flow.elementwise without `len(places) > 1`": FAILS,
    "flow.elementwise without its statement": REFUSED,
    "flow.same_shape without `result.shape != value.shape`": REFUSED,
    "flow.same_shape without `result.axis != value.axis`": (
        "it is stricter than it must be: rows written over a constant that is alike for all are rows"
    ),
    "flow.transposed without `sorted(axes) != list(range(value.rank))`": REFUSED,
    "flow.tiled without `len(repeats) != value.rank`": REFUSED,
    "flow.concatenated without `any((value.rank != rank for value in values))`": IMPLIED,
    "flow.concatenated without `len(places) != 1`": FAILS,
    "flow.concatenated without `len({(*value.shape[:axis], *value.shape[axis + 1:]) for value in values}) > 1`": (
        REFUSED
    ),
    "flow.product_of_matrices without `left.rank < 2`": FAILS,
    "flow.product_of_matrices without `right.rank < 1`": REFUSED,
    "flow.product_of_matrices without `left.shape[-1] != right.shape[-2]`": REFUSED,
    "flow.summed without `not arrow`": IMPLIED,
    "flow.summed without `not ''.join([*terms, right]).isalpha()`": IMPLIED,
    "flow.summed without `len(terms) != len(values)`": REFUSED,
    "flow.summed without `letter not in right`": FAILS,
    "flow.summed without `len(term) != value.rank`": REFUSED,
    "flow.summed without `any((sizes.setdefault(*one) != one[1] for one in zip(term, value.shape, strict=True)))`": (
        FAILS
    ),
    "torch_call.tensor without `not isinstance(value, Value)`": FAILS,
    "torch_call.integer without `not isinstance(value, int)`": REFUSED,
    "torch_call.integer without `isinstance(value, bool)`": REFUSED,
    "torch_call.axes without `self.arguments[name] is None`": FAILS,
    "torch_graph.check_rules without `len(images) != 1`": EXPORT,
    "torch_graph.check_rules without `output(graph) is None`": EXPORT,
    "torch_graph._nodes without `isinstance(value, dict | slice)`": EXPORT,
    "torch_graph._rule without `node.target.namespace != 'aten'`": IMPLIED,
    "torch_graph._rule without `tuple((argument.name for argument in node.target._schema.arguments)) "
    "!= rule.arguments`": "it is for other versions of torch",
    "torch_graph.check_output without `not isinstance(value, Value)`": EXPORT,
    "torch_graph.check_output without `value.outer != 1`": IMPLIED,
    "torch_graph._call without `any((0 in shape for shape in shapes))`": "what has no entries cannot differ",
    "torch_graph._one_of_several without `node.target is not operator.getitem`": (
        "arithmetic on sizes is on constants, which come to no rule"
    ),
    "torch_graph._one_of_several without `not isinstance(results, tuple)`": FAILS,
    "torch_graph._one_of_several without `not isinstance(number, int)`": FAILS,
    "torch_graph._one_of_several without `results[number] is None`": "no rule leaves a result out",
    "torch_graph._written without `names != [schema.arguments[0].name]`": "no operator with a rule writes elsewhere",
    "torch_graph._written without `not _is_node(target)`": EXPORT,
    "torch_rules._linear without `weight.rank != 2`": FAILS,
    "torch_rules._attention without `found.axis is not None and found.axis >= found.rank - 2`": (
        "it is stricter than it must be: rows in the last axis of the values alone do not meet"
    ),
    "torch_rules._einsum without `not isinstance(call.arguments['equation'], str)`": REFUSED,
    "torch_rules._turned without `value.rank < 2`": REFUSED,
    "torch_rules._batch_norm without `call.arguments['training']`": IMPLIED,
    "torch_rules._batch_norm without `call.arguments['running_mean'] is None`": IMPLIED,
    "torch_rules._batch_norm without `call.arguments['running_var'] is None`": IMPLIED,
    "torch_rules._listed without `not isinstance(values, Sequence)`": REFUSED,
    "torch_rules._listed without `not all((isinstance(value, Value) for value in values))`": FAILS,
    "table _to_copy.default is fresh": COPIES,
    "table repeat.default is fresh": COPIES,
    "table pad.default is fresh": COPIES,
    "table constant_pad_nd.default is fresh": COPIES,
    "table index.Tensor is fresh": COPIES,
    "table pixel_shuffle.default is fresh": COPIES,
    "table scaled_dot_product_attention.default takes any enable_gqa in way 0": (
        "the rule broadcasts heads as without it, and heads of other numbers do not fit"
    ),
    "table batch_norm.default takes any running_mean in way 1": REFUSED,
    "table batch_norm.default takes any running_var in way 1": REFUSED,
    "table instance_norm.default takes any use_input_stats in way 0": REFUSED,
    "table instance_norm.default takes any running_mean in way 0": REFUSED,
    "table instance_norm.default takes any running_var in way 0": REFUSED,
}
