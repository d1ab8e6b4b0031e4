"""PyTorch's tensors in and out, with gradients: a call of a function as a step of its autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, cast

import numpy as np

from tawa.axon.running.derivatives import backward
from tawa.axon.running.evaluate import Evaluator
from tawa.axon.running.registry import DTYPES, is_bf16
from tawa.axon.running.tape import Tape, Traced, Value, primal
from tawa.axon.running.trees import filled, leaves_of

Values = tuple[Value, ...]


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch's, or a tree with one."""
    if isinstance(value, tuple):
        return any(is_torch(item) for item in cast("Values", value))
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "requires_grad")


def array_of(tensor: Any) -> Any:
    """The numbers of a tensor of PyTorch's in a NumPy array."""
    own = tensor.detach().cpu()
    if str(getattr(own, "dtype", "")) != "torch.bfloat16":
        return np.asarray(own)
    torch: Any = import_module("torch")
    return own.contiguous().view(torch.int16).numpy().view(DTYPES["bf16"])


def tensor_of(array: Any, torch: Any) -> Any:
    """A tensor with a copy of an array's numbers."""
    own = np.array(array)
    if not is_bf16(own):
        return torch.from_numpy(own)
    return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)


def through_torch(evaluator: Evaluator, run: Callable[..., Value], arguments: Values) -> Value:
    """Call a function of arrays with PyTorch's tensors: the result is on their device.

    `run` takes the arguments with arrays, or traced ones, in place of tensors. PyTorch's `backward`
    goes through the result to the tensors that require gradients.
    """
    torch: Any = import_module("torch")  # only who has tensors has PyTorch

    tensors = [leaf for leaf in leaves_of(arguments) if is_torch(leaf)]
    structure: list[Any] = []

    class Call(torch.autograd.Function):
        """One call, and its tape."""

        @staticmethod
        def forward(context: Any, *given: Any) -> Any:
            arrays = [array_of(tensor) for tensor in given]
            tape = Tape()
            watched = [
                Traced(tape, array) if tensor.requires_grad and evaluator.is_float(array) else array
                for tensor, array in zip(given, arrays, strict=True)
            ]
            queue = iter(watched)
            result = run(*_replaced(arguments, queue))
            results = list(leaves_of(result))
            structure.append(result)
            context.step = (tape, watched, results)
            plain = [tensor_of(primal(r), torch).to(given[0].device) for r in results]
            floats = [tensor.is_floating_point() for tensor in plain]
            context.mark_non_differentiable(
                *(t for t, is_float in zip(plain, floats, strict=True) if not is_float)
            )
            return tuple(plain)

        @staticmethod
        def backward(context: Any, *grads: Any) -> Any:
            tape, watched, results = context.step
            traced = [value for value in watched if isinstance(value, Traced)]
            totals: list[Value | None] = [None] * len(traced)
            for result, by in zip(results, grads, strict=True):
                if by is None or not isinstance(result, Traced):
                    continue
                slope = array_of(by)
                found = tape.derivatives(evaluator, backward, result, slope, traced)
                totals = [_sum(a, b) for a, b in zip(totals, found, strict=True)]
            queue = iter(totals)
            slopes = [next(queue) if isinstance(value, Traced) else None for value in watched]
            device = grads[0].device
            return tuple(None if s is None else tensor_of(s, torch).to(device) for s in slopes)

    call: Any = Call
    found = call.apply(*tensors)
    return filled(structure[0], iter(found))


def _sum(one: Value | None, other: Value | None) -> Value | None:
    return other if one is None else one if other is None else one + other


def _replaced(value: Any, arrays: Iterator[Any]) -> Any:
    """A tree with arrays in place of tensors."""
    if isinstance(value, tuple):
        return tuple(_replaced(item, arrays) for item in cast("Values", value))
    return next(arrays) if is_torch(value) else value
