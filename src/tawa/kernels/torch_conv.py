"""Convolution as an operator of PyTorch, with gradients, and models that use it.

    from tawa.kernels.torch_conv import conv2d, replace_convolutions

    y = conv2d(x, w, bias, padding=1)
    replace_convolutions(model)

The operator is `torch.ops.tawa.conv2d`. It works under `torch.compile` (as one opaque call) and in
CUDA graphs, once its kernels are compiled: call it once before the capture. Tensors are PyTorch's
[N, C, H, W]; those that are `channels_last` in memory are read where they lie, others are copied.
Needs the extra `tawa[torch]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tawa.kernels.conv import conv2d as convolve
from tawa.kernels.conv_gradients import gradient_of_filters, gradient_of_images
from tawa.kernels.conv_shapes import Pair, numbers

torch: Any = import_module("torch")

SCHEMA = (
    "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, "
    "SymInt[2] dilation=1, SymInt groups=1, bool relu=False) -> Tensor"
)
TYPES = torch.float16, torch.bfloat16


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    relu: bool = False,
) -> Any:
    """As `torch.nn.functional.conv2d`, and then, with `relu`, what is negative becomes 0.

    `input` [N, C, H, W] and `weight` [K, C / groups, R, S] are fp16 or bf16, sums fp32; the result
    is `channels_last`. Raises ConvolutionNotPossible.
    """
    steps = (
        numbers(stride, "stride", 1), numbers(padding, "padding", 0),
        numbers(dilation, "dilation", 1),
    )  # fmt: skip
    return torch.ops.tawa.conv2d(input, weight, bias, *steps, groups, relu)


def _lying(tensor: Any) -> Any:
    """The tensor in the order of channels-last memory."""
    return tensor.detach().permute(0, 2, 3, 1)


def _arguments(stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    return {
        "stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation),
        "groups": groups,
    }  # fmt: skip


def _conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = (1, 1), padding: Any = (0, 0),
    dilation: Any = (1, 1), groups: int = 1, relu: bool = False,
) -> Any:  # fmt: skip
    """What the operator does."""
    given = _arguments(stride, padding, dilation, groups)
    x, w = _lying(input), _lying(weight)
    return convolve(x, w, bias=bias, relu=relu, **given).permute(0, 3, 1, 2)


def _fake(
    input: Any, weight: Any, bias: Any = None, stride: Any = (1, 1), padding: Any = (0, 0),
    dilation: Any = (1, 1), groups: int = 1, relu: bool = False,
) -> Any:  # fmt: skip
    """The result's shape, type and strides, from shapes that may be symbols."""
    del bias, relu
    sizes = zip(input.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    p, q = ((size + 2 * b - d * (taps - 1) - 1) // s + 1 for size, taps, s, b, d in sizes)
    del groups
    return input.new_empty((input.shape[0], p, q, weight.shape[0])).permute(0, 3, 1, 2)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """What the gradients need."""
    input, weight, bias, stride, padding, dilation, groups, relu = inputs
    ctx.save_for_backward(input, weight, output if relu else None)
    ctx.given = _arguments(stride, padding, dilation, groups)
    ctx.bias = bias is not None


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of images, filters and bias."""
    input, weight, output = ctx.saved_tensors
    if output is not None:
        gradient = gradient * (output > 0)
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    dx, dw = torch.ops.tawa.conv2d_backward(
        gradient, input, weight, *(ctx.given[n] for n in ("stride", "padding", "dilation")),
        ctx.given["groups"], [ctx.needs_input_grad[0], ctx.needs_input_grad[1]],
    )  # fmt: skip
    db = gradient.sum((0, 2, 3)) if ctx.bias and ctx.needs_input_grad[2] else None
    wanted = ctx.needs_input_grad
    return dx if wanted[0] else None, dw if wanted[1] else None, db, *(None,) * 5


def _gradients(
    gradient: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    mask: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """Those of images and filters; an empty tensor for what is not wanted."""
    given = _arguments(stride, padding, dilation, groups)
    x, w, dy = map(_lying, (input, weight, gradient))
    empty = input.new_empty(0)
    dx, dw = empty, empty.clone()
    if mask[0]:
        dx = gradient_of_images(dy, w, tuple(x.shape), **given).permute(0, 3, 1, 2)
    if mask[1]:
        dw = gradient_of_filters(dy, x, tuple(w.shape), **given).permute(0, 3, 1, 2)
    return dx, dw


def _fake_gradients(gradient: Any, input: Any, weight: Any, *rest: Any) -> tuple[Any, Any]:
    """Their shapes, types and strides."""
    mask = rest[-1]
    found = [
        t.new_empty([t.shape[d] for d in (0, 2, 3, 1)]).permute(0, 3, 1, 2)
        if wanted
        else t.new_empty(0)
        for t, wanted in zip((input, weight), mask, strict=True)
    ]
    del gradient
    return found[0], found[1]


OPERATOR: Any = torch.library.custom_op("tawa::conv2d", _conv2d, mutates_args=(), schema=SCHEMA)
"""`torch.ops.tawa.conv2d`."""
BACKWARD: Any = torch.library.custom_op(
    "tawa::conv2d_backward", _gradients, mutates_args=(),
    schema="(Tensor gradient, Tensor input, Tensor weight, SymInt[2] stride, SymInt[2] padding, "
    "SymInt[2] dilation, SymInt groups, bool[2] mask) -> (Tensor, Tensor)",
)  # fmt: skip
"""`torch.ops.tawa.conv2d_backward`."""
OPERATOR.register_fake(_fake)
OPERATOR.register_autograd(_backward, setup_context=_keep)
BACKWARD.register_fake(_fake_gradients)


def _forward(self: Any, input: Any) -> Any:
    """`torch.nn.Conv2d.forward` by this operator."""
    return conv2d(
        input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )


def replace_convolutions(model: Any) -> list[str]:
    """Let the `Conv2d` modules of a model, in fp16 or bf16, use `conv2d`; gives their names.

    Those that pad otherwise than by zeros of a number, and those of other types, stay as they are.
    The model's parameters are brought to `channels_last`.
    """
    found: list[str] = []
    for name, module in model.named_modules():
        if type(module) is not torch.nn.Conv2d or isinstance(module.padding, str):
            continue
        if module.padding_mode == "zeros" and module.weight.dtype in TYPES:
            module.to(memory_format=torch.channels_last)
            module.forward = _forward.__get__(module)
            found.append(name)
    return found


__all__ = ["conv2d", "replace_convolutions"]
