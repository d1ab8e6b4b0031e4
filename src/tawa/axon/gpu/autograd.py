"""Going backwards through compiled functions: what their kernels compute, and PyTorch's autograd.

A call is a step of PyTorch's autograd: one plan of kernels forwards, another backwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, cast

from tawa.axon.gpu.trace import Tracer
from tawa.axon.running.control import mapped
from tawa.axon.running.derivatives import backward
from tawa.axon.running.tape import Tape, Traced, Value, primal
from tawa.axon.running.trees import filled, leaves_of

Compiled = Callable[..., Any]


def applied(value: Any, arguments: tuple[Any, ...], tracer: Tracer) -> Any:
    """A function's value for arguments of nodes."""
    for argument in arguments:
        value = value(argument)
    return value


def pulled_back(value: Any, arguments: tuple[Any, ...], tracer: Tracer) -> tuple[Any, ...]:
    """The derivatives by each array of a floating-point type among a function's arguments.

    The last of `arguments` is a tuple: the derivative by each array of the result, in order.
    """
    *given, slopes = arguments
    tape = Tape()
    watched: list[Traced] = []

    def watch(leaf: Value) -> Value:
        if not tracer.is_float(primal(leaf)):
            return leaf
        watched.append(Traced(tape, leaf))
        return watched[-1]

    result = applied(value, tuple(mapped(watch, argument) for argument in given), tracer)
    totals: list[Any] = [None] * len(watched)
    for part, slope in zip(leaves_of(result), slopes, strict=True):
        found = tape.derivatives(tracer, backward, part, slope, watched)
        totals = [_sum(tracer, a, b) for a, b in zip(totals, found, strict=True)]
    return tuple(
        _zeros(tracer, of) if total is None else total
        for of, total in zip(watched, totals, strict=True)
    )


def _sum(tracer: Tracer, one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return other if one is None else one
    return tracer.call("+", one, other)


def _zeros(tracer: Tracer, like: Traced) -> Value:
    return tracer.call("broadcast", tracer.number(0.0, like), to=tuple(like.shape))


def needs_gradients(leaves: list[Any]) -> bool:
    """Whether PyTorch is to go backwards through a call with these arguments."""
    torch: Any = sys.modules.get("torch")  # only who has tensors has PyTorch
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(getattr(leaf, "requires_grad", False) for leaf in leaves)


def through_torch(
    function: Compiled, pullback: Compiled, arguments: tuple[Any, ...], statics: dict[str, Any]
) -> Any:
    """Call a compiled function with tensors. Its `pullback` gives what `backward` asks for.

    That takes the arguments and a tuple of the derivatives by the result's arrays.
    """
    torch: Any = import_module("torch")
    tensors = [leaf for leaf in leaves_of(arguments) if isinstance(leaf, torch.Tensor)]
    structure: list[Any] = []

    class Call(torch.autograd.Function):
        """One call."""

        @staticmethod
        def forward(context: Any, *given: Any) -> Any:
            structure.append(function(*_replaced(arguments, iter(given), torch), **statics))
            results = list(leaves_of(structure[0]))
            context.save_for_backward(*given)
            context.like = [(tuple(r.shape), r.dtype, r.device) for r in results]
            context.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
            return tuple(results)

        @staticmethod
        def backward(context: Any, *grads: Any) -> Any:
            slopes = tuple(
                torch.zeros(shape, dtype=dtype, device=device) if grad is None
                else grad.to(dtype).contiguous()
                for grad, (shape, dtype, device) in zip(grads, context.like, strict=True)
            )  # fmt: skip
            saved = context.saved_tensors
            with torch.no_grad():
                found = pullback(*_replaced(arguments, iter(saved), torch), slopes, **statics)
            queue = iter(found)
            by = [next(queue) if tensor.is_floating_point() else None for tensor in saved]
            needed = context.needs_input_grad
            return tuple(slope if need else None for slope, need in zip(by, needed, strict=True))

    call: Any = Call
    found = call.apply(*tensors)
    return filled(structure[0], iter(found))


def _replaced(value: Any, tensors: Iterator[Any], torch: Any) -> Any:
    """A tree with other tensors."""
    if isinstance(value, tuple):
        return tuple(_replaced(item, tensors, torch) for item in cast("tuple[Any, ...]", value))
    return next(tensors) if isinstance(value, torch.Tensor) else value
