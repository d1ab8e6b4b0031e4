"""Calls as steps of PyTorch's autograd: one plan of kernels forwards, another backwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, cast

Compiled = Callable[..., Any]


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
    tensors = [leaf for leaf in _leaves(arguments) if isinstance(leaf, torch.Tensor)]
    structure: list[Any] = []

    class Call(torch.autograd.Function):
        """One call."""

        @staticmethod
        def forward(context: Any, *given: Any) -> Any:
            structure.append(function(*_replaced(arguments, iter(given), torch), **statics))
            results = list(_leaves(structure[0]))
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
    return _filled(structure[0], iter(found))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from _leaves(item)
    else:
        yield value


def _replaced(value: Any, tensors: Iterator[Any], torch: Any) -> Any:
    """A tree with other tensors."""
    if isinstance(value, tuple):
        return tuple(_replaced(item, tensors, torch) for item in cast("tuple[Any, ...]", value))
    return next(tensors) if isinstance(value, torch.Tensor) else value


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    """A result with its tensors as autograd knows them."""
    if isinstance(value, tuple):
        return tuple(_filled(item, tensors) for item in cast("tuple[Any, ...]", value))
    return next(tensors)
