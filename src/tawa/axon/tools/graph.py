"""A function as a graph: a node for each call, and the inferred type on every edge."""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.typing import syntax as x
from tawa.axon.typing.infer import AxonInference
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A parameter, call, constant or result; `kind` says which."""

    id: int
    label: str
    kind: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A value that flows from one node to another."""

    source: int
    target: int
    type: str


@dataclass
class Graph:
    """Nodes in the order of evaluation, and the edges between them."""

    title: str
    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    edges: list[GraphEdge] = field(default_factory=list[GraphEdge])

    def add(self, label: str, kind: str, span: Span | None = None) -> int:
        """A new node; its number."""
        self.nodes.append(GraphNode(len(self.nodes), label, kind, span))
        return len(self.nodes) - 1

    def connect(self, source: int, target: int, type_: str) -> None:
        """A new edge; the same edge isn't drawn twice."""
        edge = GraphEdge(source, target, type_)
        if edge not in self.edges[-8:]:
            self.edges.append(edge)


@dataclass(frozen=True, slots=True)
class Flow:
    """Where a value comes from, and its type as text."""

    node: int
    type: str


Names = dict[str, Flow]


class GraphBuilder:
    """Builds the graph of one definition."""

    def __init__(self, inference: AxonInference, title: str) -> None:
        self.inference = inference
        self.printer = AxonPrinter()
        self.graph = Graph(title)

    def definition(self, definition: s.Definition) -> Graph:
        """The graph of a definition's body."""
        names: Names = {}
        for parameter in definition.parameters:
            for name in s.bound_names(parameter):
                node = self.graph.add(name.name, "parameter", name.span)
                names[name.name] = Flow(node, self._type(name))
        flow = self.visit(definition.body, names)
        result = self.graph.add("result", "result", definition.span)
        self.graph.connect(flow.node, result, flow.type)
        return self.graph

    def _type(self, node: s.Node) -> str:
        type_ = self.inference.types.get(node)
        return "" if type_ is None else self.printer.type(self.inference.solver.resolve(type_))

    def visit(self, expression: s.Expression, names: Names) -> Flow:
        """The flow of an expression's value; adds the nodes that compute it."""
        while isinstance(expression, s.Let):
            names = self._bind(expression, names)
            expression = expression.body
        match expression:
            case s.Name(name) if name in names:
                return names[name]
            case s.Name(name):
                return self._node(expression, name, "constant", [])
            case s.Literal(value):
                return self._node(expression, str(value), "constant", [])
            case s.Annotated(subject, _):
                return self.visit(subject, names)
            case s.Lambda(parameters, body):
                return self._lambda(expression, parameters, body, names)
            case _:
                return self._call(expression, names)

    def _call(self, expression: s.Expression, names: Names) -> Flow:
        parts = _parts(expression)
        flows = [self.visit(part, names) for part in parts]
        return self._node(expression, _label(expression), "call", flows)

    def _lambda(
        self, expression: s.Expression, parameters: tuple[s.Pattern, ...], body: s.Expression,
        names: Names,
    ) -> Flow:  # fmt: skip
        bound = {n.name for parameter in parameters for n in s.bound_names(parameter)}
        used = {n.name for n in _names_in(body)} - bound
        flows = [flow for name, flow in names.items() if name in used]
        return self._node(expression, "fn", "call", flows)

    def _node(self, expression: s.Expression, label: str, kind: str, flows: list[Flow]) -> Flow:
        node = self.graph.add(label, kind, expression.span)
        for flow in flows:
            self.graph.connect(flow.node, node, flow.type)
        return Flow(node, self._type(expression))

    def _bind(self, let: s.Let, names: Names) -> Names:
        inner = dict(names)
        for binding in let.bindings:
            if binding.parameters:
                flow = self._lambda(binding.value, binding.parameters, binding.value, names)
                flow = Flow(flow.node, "")
                node = self.graph.nodes[flow.node]
                label = getattr(binding.pattern, "name", "fn")
                self.graph.nodes[flow.node] = GraphNode(node.id, f"fn {label}", "call", node.span)
            else:
                flow = self.visit(binding.value, names)
            for name in s.bound_names(binding.pattern):
                inner[name.name] = Flow(flow.node, self._type(name) or flow.type)
        return inner


def _names_in(body: s.Expression) -> list[s.Name]:
    found: list[s.Name] = []
    stack: list[s.Node] = [body]
    while stack:
        top = stack.pop()
        if isinstance(top, s.Name):
            found.append(top)
        stack.extend(s.children(top))
    return found


def _parts(expression: s.Expression) -> list[s.Expression]:
    """What flows into the node of an expression."""
    match expression:
        case s.Binary(_, left, right):
            return [left, right]
        case s.Unary(_, operand):
            return [operand]
        case s.Pipe(argument, function):
            return [argument, *s.spine(function)[1]]
        case s.Apply():
            function, arguments = s.spine(expression)
            plain = isinstance(function, (s.Name, x.StaticApply))
            return arguments if plain else [function, *arguments]
        case s.If(condition, yes, no):
            return [condition, yes, no]
        case _:
            return [c for c in s.children(expression) if isinstance(c, s.Expression)]


def _label(expression: s.Expression) -> str:
    match expression:
        case s.Binary(operator, _, _) | s.Unary(operator, _):
            return operator.name
        case s.Pipe(_, function):
            return _function_label(s.spine(function)[0])
        case s.Apply():
            return _function_label(s.spine(expression)[0])
        case x.StaticApply():
            return _function_label(expression)
        case s.Project(_, index):
            return f".{index}"
        case _:
            return type(expression).__name__.lower()


def _function_label(function: s.Expression) -> str:
    match function:
        case s.Name(name):
            return name
        case x.StaticApply(name, arguments):
            shown = [_static_label(argument) for argument in arguments]
            return f"{name.name}{{{', '.join(shown)}}}"
        case _:
            return "apply"


def _static_label(argument: x.Static) -> str:
    value = argument.span.source_line()
    if value is None or argument.span.line != argument.span.end_line:
        return argument.name or "..."
    return value[argument.span.column : argument.span.end_column]


def function_graph(module: CheckedModule, name: str) -> Graph:
    """The graph of a definition. Raises KeyError if there is none of that name."""
    definition = {d.name: d for d in module.syntax.definitions()}[name]
    if not isinstance(module.inference, AxonInference):
        raise TypeError("the module is not Axon")
    return GraphBuilder(module.inference, name).definition(definition)
