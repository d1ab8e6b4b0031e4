"""Convolutions as operators of PyTorch, with gradients, and models that use them.

    from tawa.kernels.torch_conv import conv2d, replace_convolutions

    y = conv2d(x, w, bias, padding=1)
    replace_convolutions(model)

The operators are `torch.ops.tawa.conv1d`, `conv2d`, `conv3d` and `conv_transpose1d` to
`conv_transpose3d`. They work under `torch.compile` (as opaque calls) and in CUDA graphs, once their
kernels are compiled: call them once before the capture. Tensors are PyTorch's [N, C, ...]; those
that are `channels_last` in memory are read where they lie, others are copied. Needs the extra
`tawa[torch]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from tawa.base.user_frames import entry
from tawa.kernels.conv import Finish, convolve
from tawa.kernels.conv_gradients import conv_transpose, gradient_of_filters, gradient_of_images
from tawa.kernels.convolution.activations import ACTIVATIONS
from tawa.kernels.convolution.shapes import Pair, numbers, padding_of

torch: Any = import_module("torch")

TYPES = torch.float16, torch.bfloat16
STEPS = (
    "Tensor? bias=None, SymInt[{n}] stride=1, SymInt[] padding={zeros}, SymInt[{n}] dilation=1, "
    "SymInt groups=1"
)
SCHEMA = "(Tensor input, Tensor weight, " + STEPS + ", bool relu=False) -> Tensor"
TRANSPOSED = "(Tensor input, Tensor weight, " + STEPS + ", SymInt[{n}] output_padding=0) -> Tensor"
GRADIENTS = (
    "(Tensor gradient, Tensor input, Tensor weight, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, bool[2] mask, bool transposed) -> (Tensor, Tensor)"
)


@entry
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0,
    dilation: Pair = 1, groups: int = 1, *, relu: bool = False,
) -> Any:  # fmt: skip
    """As `torch.nn.functional.conv1d`; see `conv2d`. A causal one pads by `[(taps - 1, 0)]`."""
    steps = _steps(1, stride, padding, dilation)
    return torch.ops.tawa.conv1d(input, weight, bias, *steps, groups, relu)


@entry
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0,
    dilation: Pair = 1, groups: int = 1, *, relu: bool = False,
) -> Any:  # fmt: skip
    """As `torch.nn.functional.conv2d`, and then, with `relu`, what is negative becomes 0.

    `input` [N, C, H, W] and `weight` [K, C / groups, R, S] are fp16 or bf16, sums fp32; the result
    is `channels_last`. `padding` may have a pair (before, after) for each dimension. Raises
    ConvolutionNotPossible.
    """
    steps = _steps(2, stride, padding, dilation)
    return torch.ops.tawa.conv2d(input, weight, bias, *steps, groups, relu)


@entry
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0,
    dilation: Pair = 1, groups: int = 1, *, relu: bool = False,
) -> Any:  # fmt: skip
    """As `torch.nn.functional.conv3d`; see `conv2d`."""
    steps = _steps(3, stride, padding, dilation)
    return torch.ops.tawa.conv3d(input, weight, bias, *steps, groups, relu)


@entry
def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Pair = 1, padding: Any = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1,
) -> Any:  # fmt: skip
    """As `torch.nn.functional.conv_transpose2d`; the result is `channels_last`."""
    return _transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )  # fmt: skip


def _transpose(
    count: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, more: Any,
    groups: int, dilation: Any,
) -> Any:  # fmt: skip
    operator = getattr(torch.ops.tawa, f"conv_transpose{count}d")
    more = numbers(more, "output_padding", 0, count)
    return operator(input, weight, bias, *_steps(count, stride, padding, dilation), groups, more)


def _steps(count: int, stride: Pair, padding: Any, dilation: Pair) -> tuple[Any, ...]:
    """Strides, what comes before and after each dimension, and dilations."""
    sides = [side for pair in padding_of(padding, count) for side in pair]
    return numbers(stride, "stride", 1, count), sides, numbers(dilation, "dilation", 1, count)


def _lying(tensor: Any) -> Any:
    """The tensor in the order of channels-last memory."""
    return tensor.detach().movedim(1, -1)


def _pairs(padding: Sequence[int], count: int) -> tuple[tuple[int, int], ...]:
    """What comes before and after each dimension: of as many numbers, or of twice as many."""
    found = list(padding)
    if len(found) == count:
        found = [side for side in found for _ in range(2)]
    return tuple(zip(found[::2], found[1::2], strict=True))


def _each(values: Any, otherwise: int, like: Any) -> tuple[Any, ...]:
    """A number for each dimension; PyTorch leaves out what is given as its schema has it."""
    return tuple(values) or (otherwise,) * (like.dim() - 2)


def _conv(
    input: Any, weight: Any, bias: Any = None, stride: Any = (), padding: Any = (),
    dilation: Any = (), groups: int = 1, relu: bool = False,
) -> Any:  # fmt: skip
    """What the operators do."""
    given = _given(stride, padding, dilation, groups, input)
    steps = given["stride"], given["padding"], given["dilation"], groups
    finish = Finish(bias=bias, activation=ACTIVATIONS["relu"] if relu else None)
    found = convolve(_lying(input), _lying(weight), None, None, steps, finish, None)
    return found.movedim(-1, 1)


def _made(like: Any, *sizes: Any) -> Any:
    """A tensor [N, C, ...] that is `channels_last`."""
    return like.new_empty((sizes[0], *sizes[2:], sizes[1])).movedim(-1, 1)


def _fake(
    input: Any, weight: Any, bias: Any = None, stride: Any = (), padding: Any = (),
    dilation: Any = (), groups: int = 1, relu: bool = False,
) -> Any:  # fmt: skip
    """The result's shape, type and strides, from shapes that may be symbols."""
    del bias, relu, groups
    given = _given(stride, padding, dilation, 1, input)
    steps = given["stride"], given["padding"], given["dilation"]
    sizes = zip(input.shape[2:], weight.shape[2:], *steps, strict=True)
    found = ((size + sum(b) - d * (taps - 1) - 1) // s + 1 for size, taps, s, b, d in sizes)
    return _made(input, input.shape[0], weight.shape[0], *found)


def _transposed(
    input: Any, weight: Any, bias: Any = None, stride: Any = (), padding: Any = (),
    dilation: Any = (), groups: int = 1, output_padding: Any = (),
) -> Any:  # fmt: skip
    """What the transposed operators do."""
    given = _given(stride, padding, dilation, groups, input)
    more = _each(output_padding, 0, input)
    found = conv_transpose(_lying(input), _lying(weight), output_padding=more, bias=bias, **given)
    return found.movedim(-1, 1)


def _fake_transposed(
    input: Any, weight: Any, bias: Any = None, stride: Any = (), padding: Any = (),
    dilation: Any = (), groups: int = 1, output_padding: Any = (),
) -> Any:  # fmt: skip
    """The shape, type and strides of what they give."""
    del bias
    given = _given(stride, padding, dilation, groups, input)
    steps = given["stride"], given["padding"], given["dilation"], _each(output_padding, 0, input)
    sizes = zip(input.shape[2:], weight.shape[2:], *steps, strict=True)
    found = ((n - 1) * s - sum(b) + d * (t - 1) + 1 + more for n, t, s, b, d, more in sizes)
    return _made(input, input.shape[0], weight.shape[1] * groups, *found)


def _given(stride: Any, padding: Any, dilation: Any, groups: int, like: Any) -> dict[str, Any]:
    return {
        "stride": _each(stride, 1, like),
        "padding": _pairs(_each(padding, 0, like), like.dim() - 2),
        "dilation": _each(dilation, 1, like),
        "groups": groups,
    }


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any, *, transposed: bool) -> None:
    """What the gradients need."""
    input, weight, bias, *ctx.steps, last = inputs
    ctx.transposed, ctx.bias = transposed, bias is not None
    ctx.save_for_backward(input, weight, output if last is True else None)


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of images, filters and bias."""
    input, weight, output = ctx.saved_tensors
    if output is not None:
        gradient = gradient * (output > 0)
    wanted = ctx.needs_input_grad
    dx, dw = torch.ops.tawa.conv_backward(
        gradient, input, weight, *ctx.steps, [wanted[0], wanted[1]], ctx.transposed
    )
    sums = [d for d in range(gradient.dim()) if d != 1]
    db = gradient.sum(sums) if ctx.bias and wanted[2] else None
    return dx if wanted[0] else None, dw if wanted[1] else None, db, *(None,) * 5


def _gradients(
    gradient: Any, input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    mask: Any, transposed: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """Those of images and filters; an empty tensor for what is not wanted."""
    steps = stride, padding, dilation, groups
    given = _given(*steps, input)
    if gradient.stride(1) != 1:
        gradient = gradient.movedim(1, -1).contiguous().movedim(-1, 1)
    x, w, dy = map(_lying, (input, weight, gradient))
    empty = input.new_empty(0)
    dx, dw = empty, empty.clone()
    if mask[0] and transposed:
        dx = _conv(gradient, weight, None, *steps)
    elif mask[0]:
        dx = gradient_of_images(dy, w, tuple(x.shape), **given).movedim(-1, 1)
    if mask[1]:
        pixels = (x, dy) if transposed else (dy, x)
        dw = gradient_of_filters(*pixels, tuple(w.shape), **given).movedim(-1, 1)
    return dx, dw


def _fake_gradients(gradient: Any, input: Any, weight: Any, *rest: Any) -> tuple[Any, Any]:
    """Their shapes, types and strides."""
    del gradient
    wanted = zip((input, weight), rest[-2], strict=True)
    found = [_made(t, *t.shape) if mask else t.new_empty(0) for t, mask in wanted]
    return found[0], found[1]


def _operator(name: str, schema: str, work: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """An operator that changes none of its arguments."""
    found = torch.library.custom_op(f"tawa::{name}", work, mutates_args=(), schema=schema)
    found.register_fake(fake)
    return found


for _n in (1, 2, 3):
    _texts = [s.format(n=_n, zeros=str([0] * _n).replace(" ", "")) for s in (SCHEMA, TRANSPOSED)]
    for _own in (
        _operator(f"conv{_n}d", _texts[0], _conv, _fake),
        _operator(f"conv_transpose{_n}d", _texts[1], _transposed, _fake_transposed),
    ):
        _other = partial(_keep, transposed="transpose" in str(_own))
        _own.register_autograd(_backward, setup_context=_other)
BACKWARD: Any = _operator("conv_backward", GRADIENTS, _gradients, _fake_gradients)
"""`torch.ops.tawa.conv_backward`: gradients of all of them."""


def _forward(self: Any, input: Any) -> Any:
    """`forward` of a convolution's module by these operators."""
    count, padding = input.dim() - 2, self.padding
    if self.padding_mode != "zeros":
        sides = self._reversed_padding_repeated_twice
        input = torch.nn.functional.pad(input, sides, mode=self.padding_mode)
        padding = 0
    elif isinstance(padding, str):
        flat = self._reversed_padding_repeated_twice[::-1]
        padding = tuple(zip(flat[1::2], flat[::2], strict=True))
    steps = _steps(count, self.stride, padding, self.dilation)
    operator = getattr(torch.ops.tawa, f"conv{count}d")
    return operator(input, self.weight, self.bias, *steps, self.groups, False)


def _transposed_forward(self: Any, input: Any, output_size: Any = None) -> Any:
    """`forward` of a transposed convolution's module."""
    more, count = self.output_padding, input.dim() - 2
    if output_size is not None:
        rest = self.stride, self.padding, self.kernel_size, count, self.dilation
        more = self._output_padding(input, output_size, *rest)
    given = self.stride, self.padding, more, self.groups, self.dilation
    return _transpose(count, input, self.weight, self.bias, *given)


MODULES = {
    **dict.fromkeys((torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d), _forward),
    **dict.fromkeys(
        (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d),
        _transposed_forward,
    ),
}
"""Modules whose `forward` is replaced, and by what."""


@entry
def replace_convolutions(model: Any) -> list[str]:
    """Let the convolutions of a model, in fp16 or bf16, use these operators; gives their names.

    Those are `Conv1d` to `Conv3d` and `ConvTranspose1d` to `ConvTranspose3d` themselves, not
    classes derived from them. Filters of two dimensions are brought to `channels_last`.
    """
    found: list[str] = []
    for name, module in model.named_modules():
        forward = MODULES.get(type(module))
        if forward is None or module.weight.dtype not in TYPES:
            continue
        if module.weight.dim() == 4:
            module.to(memory_format=torch.channels_last)
        module.forward = forward.__get__(module)
        found.append(name)
    return found


__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose2d", "replace_convolutions"]
