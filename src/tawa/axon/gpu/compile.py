"""A function of a module that runs as GPU kernels: what `axon.compile` gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from tawa.axon.gpu import library
from tawa.axon.gpu.ahead import compile_ahead
from tawa.axon.gpu.arrays import Arrays, arrays_of
from tawa.axon.gpu.autograd import applied, needs_gradients, pulled_back, through_torch
from tawa.axon.gpu.explain import plan_text
from tawa.axon.gpu.graph.errors import BadPrecision, NotForGpu
from tawa.axon.gpu.graph.lower import Program, lowered
from tawa.axon.gpu.graph.nodes import Node, Tape
from tawa.axon.gpu.plan import Plan, compile_all, make_plan, run_in_simulator, run_on_device
from tawa.axon.gpu.trace import Tracer
from tawa.axon.running.call import Function, known_sizes
from tawa.axon.running.contract import ELEMENT_NAMES
from tawa.axon.running.evaluate import Constructed, Frame
from tawa.axon.running.trees import filled, leaves_of
from tawa.base.user_frames import entries
from tawa.functional.recursion import deep
from tawa.runtime.arrays import HOST
from tawa.runtime.streams import current_stream

MOST_PLANS = 1024
"""Plans that a function keeps: one for each combination of its arguments' shapes."""

PRECISIONS = ("f32", "tf32")
Statics = dict[str, "int | tuple[int, ...]"]


@entries
@dataclass(repr=False)
class CompiledFunction:
    """A function that runs as a sequence of GPU kernels.

    Called with PyTorch (or CuPy) arrays on a device, it launches on their current stream, and can
    be captured in a CUDA graph after a first call; with NumPy arrays it runs in the simulator.
    PyTorch's `backward` goes through a call, by kernels of its own that compute the function again.
    Arguments are checked against the function's type before anything is launched. Kernels are
    compiled at the first call; other sizes use the same ones.
    """

    function: Function
    precision: str = "f32"
    apply: Callable[[Any, tuple[Any, ...], Tracer], Any] = applied
    """What a call computes of the function's value and its arguments, as nodes."""
    more: int = 0
    """Arguments at the end that the function's type is not about."""
    _plans: dict[Any, tuple[Plan, Any, Arrays]] = field(
        default_factory=dict[Any, "tuple[Plan, Any, Arrays]"]
    )
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        """Check the precision. Raises BadPrecision."""
        if self.precision not in PRECISIONS:
            raise BadPrecision(
                f"there is no precision `{self.precision}`", expected=" or ".join(PRECISIONS)
            )

    def __repr__(self) -> str:
        return f"<compiled axon function {self.function.name} : {self.type}>"

    @property
    def type(self) -> str:
        """The scheme as text."""
        return self.function.type

    def __call__(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Any:
        """Check the arguments, then launch. Raises ContractViolation, NotForGpu."""
        leaves = list(leaves_of(arguments))
        if needs_gradients(leaves):
            return through_torch(self, self.pullback, arguments, statics)
        plan, structure, arrays = self._planned(leaves, arguments, statics)
        own = [leaf for leaf in leaves if _is_array(leaf)]
        place = plan.place
        if place is None or place.device == HOST:
            results = run_in_simulator(plan, [np.ascontiguousarray(a) for a in own], arrays)
        else:
            stream = current_stream(place.library, place.device)()
            results = run_on_device(plan, own, arrays, stream)
        return filled(structure, iter(results))

    def plan(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Plan:
        """The plan for these arguments: its kernels are compiled, nothing is launched."""
        return self._planned(list(leaves_of(arguments)), arguments, statics)[0]

    def explain(self, *arguments: Any, **statics: int | tuple[int, ...]) -> str:
        """The fusion plan for these arguments as text: a kernel a paragraph, and the memory."""
        return plan_text(self.plan(*arguments, **statics), self.function.name)

    def _planned(
        self, leaves: list[Any], arguments: tuple[Any, ...], statics: Statics
    ) -> tuple[Plan, Any, Arrays]:
        key = (tuple(map(_key, leaves)), _shape(arguments), tuple(sorted(statics.items())))
        found = self._plans.get(key)
        if found is None:
            with self._lock, deep():
                if len(self._plans) >= MOST_PLANS:
                    self._plans.pop(next(iter(self._plans)))
                found = self._plans[key] = self._make(leaves, arguments, statics)
        return found

    def _make(
        self, leaves: list[Any], arguments: tuple[Any, ...], statics: Statics
    ) -> tuple[Plan, Any, Arrays]:
        own = [leaf for leaf in leaves if _is_array(leaf)]
        arrays = arrays_of(own, self.function)
        program, nodes, aligned, structure = self.lowered(arguments, statics)
        place = library.Place(arrays.device, arrays.library)
        plan = make_plan(program, nodes, aligned, place)
        for node in {slot.base for launch in plan.launches for slot in launch.slots}:
            if node.op == "constant":
                plan.constants[node] = arrays.constant(node.data, node.element)
        return plan, structure, arrays

    def lowered(
        self, arguments: tuple[Any, ...], statics: Statics
    ) -> tuple[Program, list[Node], dict[Node, bool], Any]:
        """The rewritten graph for these arguments, and what goes with it.

        Its inputs, which of them start at whole 16 bytes, and how the results are nested.
        """
        own = [leaf for leaf in leaves_of(arguments) if _is_array(leaf)]
        arrays = arrays_of(own, self.function)
        own_arguments = arguments[: len(arguments) - self.more]
        call = self.function.enter(own_arguments, statics)
        tape = Tape()
        tracer = Tracer(self.function.evaluator.module, tape)
        inputs = [_input(tape, leaf, arrays) for leaf in own]
        frame = Frame(tracer.inference, known=known_sizes(call.solver, call.instance.mapping))
        nodes = iter(inputs)
        given = tuple(_traced(argument, nodes) for argument in arguments)
        value = self.apply(tracer.definition(self.function.name, frame), given, tracer)
        results: list[Node] = []
        structure = _taken(value, tracer, results, self.function)
        program = lowered(tape, results, self.precision)
        aligned = {n: arrays.aligned(leaf) for n, leaf in zip(inputs, own, strict=True)}
        return program, inputs, aligned, structure

    @cached_property
    def pullback(self) -> CompiledFunction:
        """What goes backwards, as `pulled_back` says.

        It takes the arguments, and a tuple with the derivative by each array of the result.
        """
        return CompiledFunction(self.function, self.precision, pulled_back, 1)


def plan_for_device(
    function: CompiledFunction, arguments: tuple[Any, ...], statics: Statics
) -> Plan:
    """The plan for arguments of these shapes, nothing compiled; needs no device."""
    with deep():
        program, inputs, aligned, _ = function.lowered(arguments, statics)
        return make_plan(program, inputs, aligned, None)


def compile_for_device(
    function: CompiledFunction, arguments: tuple[Any, ...], statics: Statics
) -> Plan:
    """The plan for arguments of these shapes with all kernels compiled; needs no device."""
    plan = plan_for_device(function, arguments, statics)
    compile_ahead((launch.call for launch in plan.launches), {})
    for launch in plan.launches:
        compile_all(launch.call, {})
    return plan


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _shape(value: Any) -> Any:
    """How the leaves are nested."""
    if isinstance(value, tuple):
        return tuple(_shape(item) for item in cast("tuple[Any, ...]", value))
    return None


def _key(leaf: Any) -> Any:
    """What a plan depends on of an argument."""
    if hasattr(leaf, "data_ptr"):
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.data_ptr() & 15, leaf.get_device()
    if _is_array(leaf):
        return tuple(leaf.shape), str(leaf.dtype)
    if isinstance(leaf, bool | int | float):
        return type(leaf), leaf
    raise NotForGpu(
        f"a {type(leaf).__name__} can't be an argument of a compiled function",
        expected="arrays, tuples of arrays, numbers",
    )


def _input(tape: Tape, leaf: Any, arrays: Arrays) -> Node:
    shape, strides = arrays.layout(leaf)
    element = ELEMENT_NAMES[str(leaf.dtype).removeprefix("torch.")]
    return tape.add("input", "", (), shape, element, strides=strides, data=arrays.aligned(leaf))


def _traced(value: Any, inputs: Iterator[Node]) -> Any:
    """An argument with nodes, in order, in place of arrays."""
    if isinstance(value, tuple):
        return tuple(_traced(item, inputs) for item in cast("tuple[Any, ...]", value))
    return next(inputs) if _is_array(value) else np.asarray(value)


def _taken(value: Any, tracer: Tracer, results: list[Node], function: Function) -> Any:
    """The nodes of a result, in order, and how they are nested."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return tuple(_taken(item, tracer, results, function) for item in items)
    if callable(value) or isinstance(value, Constructed):
        raise NotForGpu(
            f"`{function.name}` gives a function or a datatype, not arrays",
            hint="pass all its arguments",
        )
    results.append(tracer.node(value))
    return None
