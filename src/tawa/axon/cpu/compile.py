"""A function of a module that onnxruntime runs: what `axon.compile(..., device="cpu")` gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from onnx import ModelProto

from tawa.axon.cpu.columns import divide_columns
from tawa.axon.cpu.errors import NotForOnnx
from tawa.axon.cpu.graph import Graph, Symbol
from tawa.axon.cpu.trace import GraphTracer
from tawa.axon.running.call import Function, known_sizes, to_value
from tawa.axon.running.evaluate import Frame
from tawa.axon.running.trees import filled, leaves_of
from tawa.axon.typing.errors import RunTimeError
from tawa.base.user_frames import entries
from tawa.functional.recursion import deep

MOST_SESSIONS = 256
"""Sessions that a function keeps: one for each combination of its arguments' shapes."""

Statics = dict[str, "int | tuple[int, ...]"]


@dataclass(frozen=True)
class Program:
    """A session's call, the names of its inputs, and how its results are nested."""

    run: Callable[..., Any]
    names: list[str]
    structure: Any


@entries
@dataclass(repr=False)
class CpuFunction:
    """A function that runs on the CPU, as an ONNX model in onnxruntime.

    Arguments are checked against the function's type at the first call with their shapes; later
    calls go straight to the model. `threads` limits onnxruntime's threads; the `bound` arguments,
    which come first, are part of the model.
    """

    function: Function
    threads: int = 0
    bound: tuple[Any, ...] = ()
    _programs: dict[Any, Program] = field(default_factory=dict[Any, Program])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        return f"<compiled axon function {self.function.name} : {self.type}>"

    @property
    def type(self) -> str:
        """The scheme as text."""
        return self.function.type

    def __call__(self, *arguments: Any, **statics: int | tuple[int, ...]) -> Any:
        """Check the arguments, then run. Raises ContractViolation, NotForOnnx, RunTimeError."""
        leaves = [np.asarray(leaf) for leaf in leaves_of(arguments)]
        nested = tuple(_structure(argument) for argument in arguments)
        key = (*((a.shape, a.dtype) for a in leaves), nested, *sorted(statics.items()))
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs[key] = self._make(arguments, statics)
                if len(self._programs) > MOST_SESSIONS:
                    self._programs.pop(next(iter(self._programs)))
        feeds = dict(zip(program.names, leaves, strict=True))
        try:
            found = program.run(None, feeds)
        except Exception as error:
            if not type(error).__module__.startswith("onnxruntime"):
                raise
            raise _failed(self.function.name, str(error)) from error
        return filled(program.structure, iter(found))

    def bind(self, *arguments: Any) -> CpuFunction:
        """The function with its first arguments given: weights, which the model then contains."""
        return CpuFunction(self.function, self.threads, (*self.bound, *arguments))

    def to_onnx(self, *arguments: Any, **statics: int | tuple[int, ...]) -> ModelProto:
        """The model for arguments of these shapes. Raises ContractViolation, NotForOnnx."""
        return self._traced(arguments, statics)[0]

    def _make(self, arguments: tuple[Any, ...], statics: Statics) -> Program:
        import onnxruntime

        model, structure = self._traced(arguments, statics)
        runtime: Any = onnxruntime
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised
        options.intra_op_num_threads = self.threads
        try:
            session = runtime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except runtime.capi.onnxruntime_pybind11_state.NotImplemented as error:
            said = str(error).rpartition(" : ")[2].partition(" with node")[0]
            raise NotForOnnx(
                f"`{self.function.name}` can't run in onnxruntime: {said}",
                hint="it may have that operator for f32 alone; `to_onnx` gives the model",
            ) from error
        return Program(session.run, [entry.name for entry in model.graph.input], structure)

    def _traced(self, arguments: tuple[Any, ...], statics: Statics) -> tuple[ModelProto, Any]:
        call = self.function.enter((*self.bound, *arguments), statics)
        graph = Graph()
        tracer = GraphTracer(self.function.evaluator.module, graph)
        known = known_sizes(call.solver, call.instance.mapping)
        with deep():
            value = tracer.definition(self.function.name, Frame(tracer.inference, known=known))
            for argument in self.bound:
                value = value(to_value(argument))
            for argument in arguments:
                value = value(_symbols(graph, argument))
        results: list[Symbol] = []
        structure = self._taken(value, tracer, results)
        tracer.hoist.finish()
        divide_columns(graph, results)
        return graph.model(self.function.name, results), structure

    def _taken(self, value: Any, tracer: GraphTracer, results: list[Symbol]) -> Any:
        """The symbols of a result, in order, and how they are nested."""
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            return tuple(self._taken(item, tracer, results) for item in items)
        if callable(value) or not hasattr(value, "shape"):
            raise NotForOnnx(
                f"`{self.function.name}` gives a function or a datatype, not arrays",
                hint="pass all its arguments",
            )
        results.append(tracer.symbol(value))
        return None


def _failed(function: str, said: str) -> RunTimeError:
    """The error for what onnxruntime says of a node that it can't run."""
    said = said.rpartition("Status Message: ")[2].splitlines()[0]
    return RunTimeError(
        f"`{function}` stopped in onnxruntime: {said}",
        hint="without `compile`, the function says at which place",
    )


def _structure(value: Any) -> Any:
    """How the leaves are nested."""
    if isinstance(value, tuple):
        return tuple(_structure(item) for item in cast("tuple[Any, ...]", value))
    return None


def _symbols(graph: Graph, value: Any) -> Any:
    """An argument with inputs of the graph in place of arrays."""
    if isinstance(value, tuple):
        return tuple(_symbols(graph, item) for item in cast("tuple[Any, ...]", value))
    if callable(value):
        raise NotForOnnx("a function can't be an argument of a compiled function")
    array = np.asarray(value)
    return graph.input(array.shape, array.dtype)
