"""Plans as text: which nodes each kernel computes, how it reads them, and the memory."""

from __future__ import annotations

from tawa.axon.gpu.graph.lower import is_reshape
from tawa.axon.gpu.graph.nodes import Node
from tawa.axon.gpu.plan import Launch, Plan

SHOWN_VALUES = 4


def plan_text(plan: Plan, name: str) -> str:
    """A plan, a kernel a paragraph."""
    arguments = ", ".join(f"{node.label} {shape_text(node)}" for node in plan.inputs)
    lines = [f"{name} ({arguments})"]
    for number, launch in enumerate(plan.launches):
        lines += ["", *launch_text(launch, number + 1)]
    memory = plan.memory
    results = ", ".join(f"{node.base.label} {shape_text(node)}" for node in plan.program.results)
    lines += [
        "",
        f"{len(plan.launches)} launches; {memory.size} bytes for {len(memory.offsets)} "
        f"intermediate tensors of {memory.total} bytes; results {results}",
    ]
    return "\n".join(lines)


def launch_text(launch: Launch, number: int) -> list[str]:
    """One kernel: kind, variant, grid, and what it computes."""
    call = launch.call
    rows, columns = call.group.space
    grid = "x".join(map(str, call.grid))
    head = f"{number}. {call.group.kind} of {rows} x {columns}, {call.variant.name}, grid {grid}"
    lines = [head]
    for node in call.group.members:
        kept = " (written)" if node in call.group.outputs else ""
        lines.append(f"   {node.label} {shape_text(node)} = {node_text(node)}{kept}")
    return lines


def node_text(node: Node) -> str:
    """How a node is computed."""
    operands = [operand_text(operand) for operand in node.inputs]
    if node.op == "dot":
        pairs = zip(operands[::2], operands[1::2], strict=True)
        return " + ".join(f"{a} @ {b}" for a, b in pairs)
    name = node.function or node.op
    if node.op == "attention":
        name = "causal_attention" if node.function else "attention"
    return f"{name} {' '.join(operands)}".strip()


def operand_text(node: Node) -> str:
    """An operand: a node, a number, or a view of memory with its strides."""
    if node.op == "constant":
        return f"{node.data.reshape(-1)[0]:g}" if node.size == 1 else node.label
    if node.base.function == "iota":
        return "place"
    if node.op == "view" and not is_reshape(node):
        return f"{node.base.label}[{', '.join(map(str, node.shape))} by {node.strides}]"
    return node.base.label


def shape_text(node: Node) -> str:
    """A node's type."""
    return f"{node.element}[{', '.join(map(str, node.shape))}]"
