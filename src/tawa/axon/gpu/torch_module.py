"""A PyTorch module of a function whose first arguments are its parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from tawa.axon.gpu.compile import CompiledFunction
from tawa.axon.running.call import Function
from tawa.axon.running.weights import Weights, filled
from tawa.base.user_frames import entry


@entry
def torch_module(
    function: Function, weights: tuple[Any, ...], *, precision: str = "f32",
    **statics: int | tuple[int, ...],
) -> Any:  # fmt: skip
    """A `torch.nn.Module` of a function whose first arguments are `weights`.

    Each array of `weights` becomes a parameter (a buffer, if it is of integers) with the name of
    the function's pattern: `w1`, or `block.0.1`. The module is called with the other arguments. On
    a device it launches kernels, elsewhere it runs on NumPy; gradients go through it either way.
    Raises WeightMismatch if a weight doesn't fit the function's type.
    """
    torch: Any = import_module("torch")
    count = len(function.evaluator.definitions[function.name].parameters)
    known = Weights(function, count - len(weights), statics)
    tensors = {
        name: torch.as_tensor(value).detach().clone() for name, value in known.flat(weights).items()
    }
    known.load(tensors, None, strict=True)
    compiled = CompiledFunction(function, precision)

    class AxonModule(torch.nn.Module):
        """A function with its weights."""

        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            for name, tensor in tensors.items():
                *path, last = name.split(".")
                owner: Any = self
                for part in path:
                    if not hasattr(owner, part):
                        owner.add_module(part, torch.nn.Module())
                    owner = getattr(owner, part)
                if tensor.is_floating_point():
                    owner.register_parameter(last, torch.nn.Parameter(tensor))
                else:
                    owner.register_buffer(last, tensor)

        def forward(self, *given: Any) -> Any:
            """The function's value."""
            own: dict[str, Any] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
            tree = filled(known.tree, lambda leaf: own[leaf.name])
            on_device = all(tensor.is_cuda for tensor in own.values())
            return (compiled if on_device else function)(*tree, *given, **statics)

        def extra_repr(self) -> str:
            """The function and its type."""
            return f"{function.name} : {function.type}"

    return cast("Any", AxonModule)()
