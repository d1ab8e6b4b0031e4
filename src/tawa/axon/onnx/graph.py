"""Walks a model and applies the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice
from operator import attrgetter
from typing import TypeVar

import numpy as np
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
)

from tawa.axon.onnx import (
    attending,
    control,
    elementwise,
    joins,
    learning,
    neural,
    parts,
    reductions,
    sequences,
    structure,
)
from tawa.axon.onnx.contents import are_long
from tawa.axon.onnx.context import (
    RULES,
    Branch,
    Context,
    IllFormed,
    Room,
    Rule,
    Undefined,
)
from tawa.axon.onnx.deadline import SECONDS, SECONDS_A_NODE, Deadline
from tawa.axon.onnx.described import Described, with_attributes
from tawa.axon.onnx.forms import check_inner_graphs, check_model, given_inputs, name_of
from tawa.axon.onnx.provided import Provided
from tawa.axon.onnx.registered import by_schema, no_rule
from tawa.axon.onnx.schemas import check_node, element_types, ill_formed, signature, type_name
from tawa.axon.onnx.sequences import EACH
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.onnx.values import MAX_SIZE, UNKNOWN, Value, known, stored, stored_sparse
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel
from tawa.base.errors import TawaError
from tawa.functional.recursion import acyclic
from tawa.functional.solver import Clash
from tawa.functional.terms import Con, Term, Variable

RULE_MODULES = (
    attending, control, elementwise, joins, learning, neural, parts, reductions, sequences,
    structure,
)  # fmt: skip
"""Importing them registers the rules."""

MAX_CALLS = 64
"""Functions that call each other deeper than this are taken to call themselves."""

IS_SHORT = attrgetter("is_short")
"""Whether a size is kept, and no number of more than 64 bits."""

OWN_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
"""The domains whose operators are all known; others may have any."""

MAX_RANK = 64
"""NumPy's limit; a shape tensor that says more is garbage."""

Overrides = dict[str, Sequence[int | str] | None]


T = TypeVar("T")


class ModelInference:
    """The inference of one model. Inputs have the model's sizes, or `overrides`.

    Named sizes of the inputs are symbols that the solver may have to constrain: what it finds out
    about them are requirements of the model. Raises ShapeMismatch if the model can't be right, and
    UnsupportedModel if it is ill-formed; if `strict`, also for an operator that ONNX's own domains
    don't have and where the model states a wrong shape itself. `rules` come before all others.
    """

    def __init__(
        self, model: ModelProto, strict: bool = False, seconds: float | None = None,
        rules: Mapping[str, Rule] | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.strict = strict
        self.rules = rules or {}
        if seconds is None:
            seconds = SECONDS + SECONDS_A_NODE * _node_count(model.graph)
        self.deadline = Deadline.after(seconds)
        self.described: dict[int, Described] = {}

    def run(
        self, overrides: Overrides | None = None, constants: dict[str, np.ndarray] | None = None
    ) -> ModelShapes:
        """Infer all values. `constants` are inputs whose contents are known.

        The model is walked twice if it has symbols: once with sizes of at least 1, and once for
        what holds where some are 0.
        """
        if self.strict:
            check_model(self.model)
        _refuse_unknown(self.model.graph, (overrides or {}).keys())
        with acyclic():
            return self._run(overrides, constants)

    def _run(
        self, overrides: Overrides | None, constants: dict[str, np.ndarray] | None
    ) -> ModelShapes:
        found: ModelShapes | None = None
        refused: TawaError | None = None
        walk = self._walk("dim")
        try:
            found = walk.run(overrides, constants)
        except (ShapeMismatch, UnsupportedModel) as error:
            refused = error
            if not walk.symbols or not _is_of_sizes(error):
                raise
        if self.strict and not overrides and walk.says_more:
            # What the model states of values that can't be inferred isn't believed, but has to fit.
            self._walk("dim", believes=True).run(None, constants)
        if found is not None and not found.symbols:
            return found
        try:
            empty = self._walk("count").run(overrides, constants)
        except (ShapeMismatch, UnsupportedModel) as error:
            raise refused or error from None
        empty.positive = found
        return empty

    def _walk(self, kind: str, believes: bool = False) -> Walk:
        known = self.described, self.rules
        return Walk(self.model, self.strict, self.deadline, kind, *known, believes)


def _is_of_sizes(error: TawaError) -> bool:
    """Whether a model may be refused for its sizes, and be right with others."""
    return isinstance(error, ShapeMismatch) or isinstance(error.__cause__, IllFormed)


def _refuse_unknown(graph: GraphProto, names: Iterable[str]) -> None:
    inputs = [entry.name for entry in graph.input]
    unknown = set(names) - set(inputs)
    if unknown:
        raise UnsupportedModel(
            f"the model has no input `{min(unknown)}`",
            expected=", ".join(f"`{name}`" for name in inputs),
        )


def _refuse_other_rank(entry: ValueInfoProto, given: Sequence[int | str] | None) -> None:
    tensor_type = entry.type.tensor_type
    sizes = len(tensor_type.shape.dim)
    if given is not None and tensor_type.HasField("shape") and len(given) != sizes:
        raise UnsupportedModel(
            f"the input `{entry.name}` has {sizes} sizes", found=f"{len(given)} sizes"
        )


class Walk:
    """One walk through a model. `kind` says from where symbols count: `"dim"` or `"count"`.

    What is `described` of nodes, by their identity, is kept for the next walk. If it `believes` the
    model, what that states of a value's shape is taken where more isn't known.
    """

    def __init__(
        self, model: ModelProto, strict: bool, deadline: Deadline, kind: str,
        described: dict[int, Described], rules: Mapping[str, Rule], believes: bool,
    ) -> None:  # fmt: skip
        self.model = model
        self.described = described
        self.rules = rules
        self.believes = believes
        self.says_more = False
        self.strict = strict
        self.deadline = deadline
        self.kind = kind
        self.solver = AxonSolver()
        self.solver.size_kind = "count"
        self.symbols: dict[str, Dim] = {}
        self.unsupported: dict[str, dict[str, None]] = {}
        self.opsets = _opsets(model.opset_import)
        self.functions = {name_of(function): function for function in model.functions}
        self.calls: list[str] = []
        self.rooms: list[Room] = []
        self.provided = Provided()
        self.supposed = 0
        self.unrolled = count()
        self.outermost = model.graph
        self.declared: dict[str, ValueInfoProto] = {}

    def symbol(self, name: str) -> Dim:
        """The size that a name stands for throughout the model."""
        if name not in self.symbols:
            self.symbols[name] = Dim.of(self.solver.fresh(self.kind, name))
            self.solver.declared.update(self.symbols[name].variables())
        return self.symbols[name]

    def run(
        self, overrides: Overrides | None, constants: dict[str, np.ndarray] | None
    ) -> ModelShapes:
        """Infer all values."""
        graph = self.outermost
        scope = self._initializers(graph)
        taken = {d.dim_param for e in graph.input for d in e.type.tensor_type.shape.dim}
        for entry in graph.input:
            given = (overrides or {}).get(entry.name)
            _refuse_other_rank(entry, given)
            found = self._input(entry.type, given, taken)
            if entry.name in scope:
                self._agree(entry, found, scope[entry.name])
            else:
                scope[entry.name] = found
        for name, array in (constants or {}).items():
            element = scope[name].element if name in scope else 0
            scope[name] = known(array, element)
        if self.strict:
            self.declared = {e.name: e for e in (*graph.value_info, *graph.output)}
        self.walk(graph, scope)
        for entry in graph.output:
            if self.strict and entry.name not in scope:
                raise UnsupportedModel(f"no node makes the output `{entry.name}`")
        return ModelShapes(
            self.solver, self.symbols, scope, self.unsupported, self.rooms, self.provided
        )

    def _initializers(self, graph: GraphProto) -> dict[str, Value]:
        scope: dict[str, Value] = {}
        for initializer in graph.initializer:
            scope[initializer.name] = self._read(initializer.name, stored, initializer)
        for sparse in graph.sparse_initializer:
            scope[sparse.values.name] = self._read(sparse.values.name, stored_sparse, sparse)
        return scope

    def _read(self, name: str, read: Callable[[T], Value], tensor: T) -> Value:
        try:
            return read(tensor)
        except Exception as error:  # numpy's and onnx's errors for contents that don't fit
            message = f"the initializer `{name}` is ill-formed: {error}"
            raise UnsupportedModel(message) from None

    def _agree(self, entry: ValueInfoProto, stated: Value, value: Value) -> None:
        """Refuse an initializer that isn't what the input of its name says."""
        for one, other in zip(stated.dims or (), value.dims or (), strict=False):
            if None not in (one.constant, other.constant) and one != other:
                raise UnsupportedModel(
                    f"the initializer `{entry.name}` has not the shape of the input",
                    expected=AxonPrinter().shape(Shape(stated.dims or ())),
                    found=AxonPrinter().shape(Shape(value.dims or ())),
                )
        ranks = (stated.rank, value.rank)
        if None not in ranks and ranks[0] != ranks[1]:
            raise UnsupportedModel(
                f"the initializer `{entry.name}` has {ranks[1]} axes",
                expected=f"{ranks[0]}, as the input of this name says",
            )

    def _input(
        self, type_: TypeProto, given: Sequence[int | str] | None, taken: set[str],
        is_item: bool = False,
    ) -> Value:  # fmt: skip
        if type_.HasField("sequence_type"):
            item = self._input(type_.sequence_type.elem_type, None, taken, is_item=True)
            return Value((), item=item, is_sequence=True)
        if type_.HasField("optional_type"):
            return self._input(type_.optional_type.elem_type, given, taken, is_item)
        if type_.WhichOneof("value") in ("map_type", "opaque_type"):
            return UNKNOWN
        tensor_type = type_.sparse_tensor_type if type_.HasField("sparse_tensor_type") else (
            type_.tensor_type)  # fmt: skip
        element = tensor_type.elem_type
        if given is not None:
            known_sizes = (Dim.of(n) if isinstance(n, int) else self.symbol(n) for n in given)
            return Value(tuple(known_sizes), None, element)
        if not tensor_type.HasField("shape"):
            return Value(None, None, element)
        sizes: list[Dim] = []
        for dim in tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                sizes.append(Dim.of(dim.dim_value))
            else:
                sizes.append(self._named(dim.dim_param, taken, is_item))
        return Value(tuple(sizes), None, element)

    def _named(self, name: str, taken: set[str], is_item: bool) -> Dim:
        """The size of this name. Without one, each item of a sequence has its own."""
        if is_item and not name:
            return Dim.of(self.solver.fresh("count", EACH))
        number = len(self.symbols)
        while not name and (f"d{number}" in taken or f"d{number}" in self.symbols):
            number += 1
        return self.symbol(name or f"d{number}")

    def walk(self, graph: GraphProto, scope: dict[str, Value]) -> None:
        """Infer the nodes of a graph in order, into `scope`."""
        made: set[str] = {entry.name for entry in (*graph.input, *graph.initializer)}
        for index, node in enumerate(graph.node):
            if graph is self.outermost:
                self.unrolled = count()
            described = self._described(node, index)
            self._node(described, scope)
            if self.strict and not made.isdisjoint(described.outputs):
                twice = min(made.intersection(described.outputs))
                raise ill_formed(described.label, f"`{twice}` is made twice")
            made.update(described.outputs)
            made.discard("")

    def _described(self, node: NodeProto, index: int) -> Described:
        found = self.described.get(id(node))
        if found is None:
            found = self.described[id(node)] = Described.of(node, index)
        return found

    def _node(self, described: Described, scope: dict[str, Value]) -> None:
        node, label = described.node, described.label
        if self.deadline.is_over:
            raise UnsupportedModel(f"inference is given up at {label}: it takes too long")
        if self.strict:
            for name in described.inputs:
                if name and name not in scope:
                    raise ill_formed(label, f"nothing before it makes its input `{name}`")
        function = self.functions.get(name_of(node)) if self.functions else None
        if function is not None and described.operator not in self.rules:
            self._function(node, function, scope, label)
            return
        inputs = [scope.get(name, UNKNOWN) if name else None for name in described.inputs]
        context = Context(
            node, inputs, self.solver, described.origin, self._opset(described.domain),
            lambda graph, given: self._subgraph(graph, given, scope),
            lambda graph, given: self._branch(graph, given, scope),
            described.attributes, rooms=self.rooms, provided=self.provided,
            decoded=described.decoded,
            is_supposed=self.supposed > 0,
            unrolled=self.unrolled,
        )  # fmt: skip
        outputs = self._outputs(context, described)
        for name, value in zip(described.outputs, outputs, strict=False):
            if name:
                scope[name] = self._bounded(value, context, label)
                if name in self.declared:
                    self._check_stated(self.declared[name], scope[name], label)
                    if self.kind == "dim":
                        scope[name] = self._completed(self.declared[name], scope[name])

    def _opset(self, domain: str) -> int:
        found = self.opsets.get(domain)
        if found is None:
            return 1 if domain else onnx.defs.onnx_opset_version()
        return found

    def _subgraph(
        self, graph: GraphProto, given: list[Value], scope: dict[str, Value]
    ) -> list[Value]:
        """The outputs of a graph that runs for certain."""
        inner = {**scope, **self._initializers(graph)}
        inner.update(zip((entry.name for entry in given_inputs(graph)), given, strict=False))
        self.walk(graph, inner)
        return [inner.get(entry.name, UNKNOWN) for entry in graph.output]

    def _branch(self, graph: GraphProto, given: list[Value], scope: dict[str, Value]) -> Branch:
        """The outputs of a graph that may not run, in terms of what is known outside of it."""
        solver = self.solver
        mark = solver.fresh().id
        before = len(solver.bindings)
        self.supposed += 1
        with solver.supposed(), self.provided.supposed():
            try:
                values = self._subgraph(graph, given, scope)
            except ShapeMismatch as error:
                return Branch(None, {}, error)
            except UnsupportedModel as error:
                if not isinstance(error.__cause__, IllFormed):
                    raise
                return Branch(None, {}, error)  # it doesn't run with inputs of these ranks
            finally:
                self.supposed -= 1
            learned = {
                variable: solver.resolve(solver.bindings[variable])
                for variable in islice(reversed(solver.bindings), len(solver.bindings) - before)
                if variable.id < mark
            }
            names = {
                term.sole_variable: Dim.of(variable)
                for variable, term in learned.items()
                if isinstance(term, Dim) and term.sole_variable is not None
                and term.sole_variable.id > mark
            }  # fmt: skip

            def outside(variable: Variable) -> Term | None:
                return names.get(variable)

            values = [value.mapped(lambda d: solver.dim(d).substitute(outside)) for value in values]
        return Branch(values, learned, None)

    def _bounded(self, value: Value, context: Context, label: str) -> Value:
        """A value as far as it is kept. Raises UnsupportedModel for a size of more than 64 bits."""
        dims = () if value.dims is None else value.dims
        if len(dims) <= MAX_RANK and all(map(IS_SHORT, dims)):
            is_plain = value.contents is None and value.progression is None
            return value if is_plain or not are_long(value) else value.without_contents()
        if len(dims) > MAX_RANK:
            return value.without_contents()._replace(dims=None)
        if any(abs(dim.constant or 0) > MAX_SIZE for dim in dims):
            raise ill_formed(label, "a size of more than 64 bits")
        value = value._replace(dims=tuple(map(context.bounded, dims)))
        return value.without_contents() if are_long(value) else value

    def _completed(self, entry: ValueInfoProto, value: Value) -> Value:
        """A value with what the model states of its shape, if that is believed."""
        of = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or not of.HasField("shape") or value.is_sequence:
            return value
        dims = value.dims or tuple(self.solver.fresh_count() for _ in of.shape.dim)
        sizes = [
            Dim.of(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else dim
            for d, dim in zip(of.shape.dim, dims, strict=True)
        ]
        if value.dims is not None and all(
            self.solver.dim(dim) == size for dim, size in zip(dims, sizes, strict=True)
        ):
            return value
        self.says_more = True
        return value._replace(dims=tuple(sizes)) if self.believes else value

    def _check_stated(self, entry: ValueInfoProto, value: Value, label: str) -> None:
        """Refuse a shape that the model states of a value and that can't be right."""
        tensor_type = entry.type.tensor_type
        if not entry.type.HasField("tensor_type") or value.is_sequence:
            return
        if 0 not in (value.element, tensor_type.elem_type) and (
            value.element != tensor_type.elem_type
        ):
            raise UnsupportedModel(
                f"the model states a wrong element type of `{entry.name}`",
                expected=f"{type_name(value.element)}, by {label}",
                found=type_name(tensor_type.elem_type),
            )
        if value.dims is None or not tensor_type.HasField("shape"):
            return
        stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor_type.shape.dim]
        found = [self.solver.dim(dim) for dim in value.dims]
        fits = len(stated) == len(found) and all(
            size is None or size < 0 or dim.constant in (None, size)
            for size, dim in zip(stated, found, strict=True)
        )
        if not fits:
            raise ShapeMismatch(
                f"the model states a wrong shape of `{entry.name}`",
                expected=f"{AxonPrinter().shape(Shape(tuple(found)))}, by {label}",
                found="[" + ", ".join("_" if n is None else str(n) for n in stated) + "]",
            )

    def _outputs(self, context: Context, described: Described) -> list[Value]:
        node, label, wanted = described.node, described.label, len(described.outputs)
        of = signature(described.domain, node.op_type, context.opset)
        rule = self.rules.get(described.operator) or RULES.get(described.operator)
        if rule is None and of is None and self.strict and described.domain in OWN_DOMAINS:
            raise no_rule(described.operator)
        elements: Sequence[int] = [0] * wanted
        if of is not None:
            if self.strict and not described.is_checked:
                check_node(node, of, label)
                check_inner_graphs(node, self.model.ir_version)
                described.is_checked = True
            try:
                elements = element_types(node, of, context.inputs, label)
            except UnsupportedModel:
                if self.strict:
                    raise
        if rule is None:
            found = None if of is None else by_schema(context, described.domain)
            if found is None:
                self.unsupported.setdefault(described.operator, {})[label] = None
        else:
            found = self._applied(rule, context, label)
        outputs = found if isinstance(found, list) else [found or UNKNOWN]
        outputs += [UNKNOWN] * (wanted - len(outputs))
        return [
            value.consisting_of(element) if element and not value.is_sequence else value
            for value, element in zip(outputs, elements, strict=False)
        ]

    def _applied(
        self, rule: Callable[[Context], list[Value] | Value | None], context: Context, label: str
    ) -> list[Value] | Value | None:
        """What a rule says. A node that it can't be applied to is ill-formed."""
        try:
            return rule(context)
        except Clash as clash:
            raise self._mismatch(clash, context) from None
        except Undefined:
            return None
        except TawaError:
            raise
        except IllFormed as error:
            raise ill_formed(label, str(error)) from error
        except RecursionError:
            raise UnsupportedModel(f"{label} is nested too deeply") from None
        except MemoryError:
            raise UnsupportedModel(f"{label} needs too much memory") from None
        except (LookupError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
            what = f"its inputs and attributes don't fit together ({error})"
            raise ill_formed(label, what) from error

    def _mismatch(self, clash: Clash, context: Context) -> ShapeMismatch:
        printer = AxonPrinter()
        terms = [self.solver.resolve(term) for term in (clash.left, clash.right)]
        left, right = (printer.type(t) if isinstance(t, Con) else printer.term(t) for t in terms)
        shapes = [
            printer.shape(Shape(dims)) if (dims := context.dims(index)) is not None else "[..?]"
            for index in range(len(context.inputs))
        ]
        reason = f": {clash.reason}" if clash.reason else ""
        return ShapeMismatch(
            f"{clash.origin.what}: {left} does not fit {right}{reason}",
            found=f"inputs of shapes {', '.join(shapes)} at {context.origin.what}",
        )

    def _function(
        self, node: NodeProto, function: onnx.FunctionProto, scope: dict[str, Value], label: str
    ) -> None:
        if len(node.output) > len(function.output):
            raise ill_formed(label, f"only {len(function.output)} of its outputs are made")
        if len(self.calls) >= MAX_CALLS:
            raise ill_formed(label, "functions call each other too deeply")
        if self.strict and len(node.input) > len(function.input):
            raise ill_formed(
                label, f"it has {len(node.input)} inputs", f"{len(function.input)} at most"
            )
        # What is left out, at the end or by an empty name, is an optional input inside, too.
        inner = dict.fromkeys(function.input, UNKNOWN)
        given = [scope.get(name, UNKNOWN) if name else UNKNOWN for name in node.input]
        inner.update(zip(function.input, given, strict=False))
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        attributes.update((attribute.name, attribute) for attribute in node.attribute)
        outside, declared = self.opsets, self.declared
        self.opsets, self.declared = {**outside, **_opsets(function.opset_import)}, {}
        self.calls.append(label)
        for index, part in enumerate(function.node):
            self._node(self._described(with_attributes(part, attributes), index), inner)
        self.calls.pop()
        self.opsets, self.declared = outside, declared
        for mine, theirs in zip(node.output, function.output, strict=False):
            if mine:
                if self.strict and theirs not in inner:
                    raise ill_formed(label, f"nothing in its function makes `{theirs}`")
                scope[mine] = inner.get(theirs, UNKNOWN)


def _opsets(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain."""
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in entries}


def _node_count(graph: GraphProto) -> int:
    """How many nodes a graph has, with those of the graphs inside it."""
    inner = (a for node in graph.node for a in node.attribute if a.HasField("g") or a.graphs)
    graphs = (g for a in inner for g in (*([a.g] if a.HasField("g") else []), *a.graphs))
    return len(graph.node) + sum(map(_node_count, graphs))
