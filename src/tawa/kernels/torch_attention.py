"""Attention as an operator of PyTorch, with the arguments of `scaled_dot_product_attention`.

    from tawa.kernels.torch_attention import scaled_dot_product_attention

    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

The operator is `torch.ops.tawa.attention`. It works under `torch.compile` (as one opaque call, and
one for its gradients) and in CUDA graphs, once its kernels are compiled: call it once before the
capture. With `torch.use_deterministic_algorithms(True)` gradients have the same bits each time, in
somewhat more of it. Needs the extra `tawa[torch]`; nothing else of the
package imports PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tawa.base.user_frames import entry
from tawa.kernels.attention import attention
from tawa.kernels.attention_arguments import (
    AttentionOptionNotSupported,
    AttentionSizesDoNotMatch,
    make_output,
    problem_of,
)
from tawa.kernels.attention_gradients import attention_gradients
from tawa.kernels.attention_kernel import masked

torch: Any = import_module("torch")

SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor"
)
FORWARD = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float? scale, "
    "bool return_lse) -> (Tensor, Tensor)"
)
BACKWARD = (
    "(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor out, Tensor lse, "
    "bool is_causal, float? scale) -> (Tensor, Tensor, Tensor)"
)
NUMPY_VIEWS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Types in which PyTorch hands over elements that NumPy itself does not have."""


@entry
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale query key^T + mask) value, as `torch.nn.functional` has it.

    Arguments are [batch, heads, rows, D] tensors (or without batch) of fp16 or bf16 on a GPU, in
    any memory order: views that the copy engine can read (D contiguous, other strides multiples of
    16 bytes) are read in place, others are copied. Tensors in the host's memory run in the
    simulator. The result lies in memory as `query` does.

    - `is_causal`: row i sees keys 0 to i (aligned top-left), whatever the lengths.
    - `attn_mask`: a tensor that broadcasts to [batch, heads, queries, keys]: bools say which keys
      count, numbers are added to the scores. A row without keys gives 0.
    - `enable_gqa`: fewer heads of keys and values than of queries, each for consecutive ones.

    Raises AttentionOptionNotSupported for dropout and, in a backward pass, for gradients beside an
    `attn_mask`, and the errors of `tawa.kernels.attention`.
    """
    return torch.ops.tawa.attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )


@dataclass(frozen=True)
class _Asked:
    """The operator's arguments after query, key and value, as its schema has them."""

    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def _attention(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> Any:
    """What the operator does: keep each row's log-sum-exp if there will be gradients."""
    asked = _Asked(*rest, **named)
    _check(query, key, asked)
    mask = asked.attn_mask
    given = [x for x in (query, key, value, mask) if x is not None]
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in given)
    found = torch.ops.tawa.attention_forward(
        query, key, value, mask, asked.is_causal, asked.scale, trained
    )
    return found[0]


def _forward(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: float | None,
    return_lse: bool,
) -> tuple[Any, Any]:
    """The output and, if it is asked for, the log-sum-exp of each row (else nothing)."""
    out, lse = _fake_forward(query, key, value, None, is_causal, scale, return_lse)
    options: dict[str, Any] = {"causal": is_causal, "alignment": "top-left", "scale": scale}
    if attn_mask is not None:
        mask = _broadcast(attn_mask, (*query.shape[:-1], key.shape[-2]))
        strides = mask.stride() if mask.dim() == 4 else (0, *mask.stride())
        options["score_mod"] = masked
        options["captured"] = (_array(mask), *strides)
    q, k, v, o = (_array(x) for x in (*map(_readable, (query, key, value)), out))
    attention(q, k, v, o, return_lse=return_lse, lse=_array(lse) if return_lse else None, **options)
    return out, lse


def _backward(
    gradient: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    is_causal: bool,
    scale: float | None,
) -> tuple[Any, Any, Any]:
    """The gradients of query, key and value, which lie in memory as these do."""
    wanted = _fake_backward(gradient, query, key, value)
    into = [_readable(x) for x in wanted]
    q, k, v, o, do = (_array(_readable(x)) for x in (query, key, value, out, gradient))
    dq, dk, dv = (_array(x) for x in into)
    options: dict[str, Any] = {"causal": is_causal, "alignment": "top-left", "scale": scale}
    options["deterministic"] = torch.are_deterministic_algorithms_enabled()
    attention_gradients(q, k, v, o, _array(lse), do, (dq, dk, dv), **options)
    for tensor, written in zip(wanted, into, strict=True):
        if written is not tensor:
            tensor.copy_(written)
    return wanted


def _check(query: Any, key: Any, asked: _Asked) -> None:
    """Raise for what the operator has not, or what `torch.nn.functional` refuses as well."""
    if asked.dropout_p:
        raise AttentionOptionNotSupported(
            "attention has no dropout", expected="dropout_p=0", found=f"dropout_p={asked.dropout_p}"
        )
    if asked.attn_mask is not None and asked.is_causal:
        raise AttentionOptionNotSupported(
            "a mask and `is_causal` together",
            expected="one of them",
            hint="put the causal part into the mask",
        )
    if query.dim() > 2 and query.shape[-3] != key.shape[-3] and not asked.enable_gqa:
        raise AttentionSizesDoNotMatch(
            "queries and keys have different numbers of heads",
            expected=f"{query.shape[-3]} heads of keys, or enable_gqa=True",
            found=f"{key.shape[-3]} heads of keys",
        )


def _readable(tensor: Any) -> Any:
    """The tensor if the copy engine can read it where it lies, else a contiguous copy."""
    size = tensor.element_size()
    places = zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True)
    aligned = all(s > 0 and s * size % 16 == 0 for s, n in places if n > 1)
    fits = aligned and tensor.stride(-1) == 1 and tensor.data_ptr() % 16 == 0
    return tensor if fits else tensor.clone(memory_format=torch.contiguous_format)


def _broadcast(mask: Any, shape: tuple[int, ...]) -> Any:
    """A view of the mask with an element for every score."""
    try:
        return mask.expand(shape)
    except RuntimeError as error:
        raise AttentionSizesDoNotMatch(
            "this mask does not fit the scores",
            expected=f"a tensor that broadcasts to {'x'.join(map(str, shape))}",
            found="x".join(map(str, mask.shape)),
        ) from error


def _array(tensor: Any) -> Any:
    """What a kernel takes: the tensor, or one in the host's memory as a NumPy array."""
    return _on_host(tensor) if tensor.device.type == "cpu" else tensor


def _on_host(tensor: Any) -> Any:
    """A host tensor's memory as a NumPy array of the same element type."""
    name = str(tensor.dtype).removeprefix("torch.")
    plain = NUMPY_VIEWS.get(name)
    if plain is None:
        return tensor.detach().numpy()
    import_module("ml_dtypes")  # makes the name known to NumPy
    return tensor.detach().view(getattr(torch, plain)).numpy().view(np.dtype(name))


def _fake_forward(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: float | None,
    return_lse: bool,
) -> tuple[Any, Any]:
    """The results' shapes, types and strides, from shapes that may be symbols."""
    del attn_mask, is_causal, scale
    out = make_output(query, problem_of(query, key, value, symbolic=True))
    rows = query.shape[:-1] if return_lse else (0,)
    return out, query.new_empty(rows, dtype=torch.float32)


def _fake_backward(
    gradient: Any, query: Any, key: Any, value: Any, *rest: Any
) -> tuple[Any, Any, Any]:
    """The same of the gradients."""
    del gradient, rest
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
    """Keep what the gradients are computed from."""
    query, key, value, attn_mask, is_causal, scale, _ = inputs
    ctx.save_for_backward(query, key, value, *output)
    ctx.causal, ctx.scale, ctx.masked = is_causal, scale, attn_mask is not None


def _gradients(context: Any, gradient: Any, of_lse: Any) -> tuple[Any, ...]:
    """The gradients of the operator's arguments."""
    del of_lse  # it is no result of the operator that users call
    if context.masked:
        raise AttentionOptionNotSupported(
            "attention has no gradients beside an `attn_mask`",
            expected="inputs without gradients, or `is_causal`",
            hint="call it under torch.no_grad(), or use torch.nn.functional",
        )
    found = torch.ops.tawa.attention_backward(
        gradient, *context.saved_tensors, context.causal, context.scale
    )
    return (*found, None, None, None, None)


LIBRARY: Any = torch.library.Library("tawa", "FRAGMENT")
LIBRARY.define(f"attention{SCHEMA}")
LIBRARY.impl("attention", _attention, "CompositeImplicitAutograd")
"""`torch.ops.tawa.attention`, which is what the operators below make of it."""
OPERATOR: Any = torch.library.custom_op(
    "tawa::attention_forward", _forward, mutates_args=(), schema=FORWARD
)
OPERATOR.register_fake(_fake_forward)
OPERATOR.register_autograd(_gradients, setup_context=_save)
OF_GRADIENTS: Any = torch.library.custom_op(
    "tawa::attention_backward", _backward, mutates_args=(), schema=BACKWARD
)
OF_GRADIENTS.register_fake(_fake_backward)
