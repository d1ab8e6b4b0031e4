"""Attention as PyTorch's operator, on tensors in the host's memory, against PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest

import tawa

torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def ours() -> Any:
    from tawa.kernels.torch_attention import scaled_dot_product_attention

    return scaled_dot_product_attention


def theirs(*args: Any, **options: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(*args, **options)


def random(*shape: int, dtype: str = "float16") -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(
        getattr(torch, dtype)
    )


def transposed(rows: int) -> tuple[Any, Any, Any]:
    """q, k and v as views of one [batch, rows, 3, heads, D] tensor."""
    q, k, v = (x.transpose(1, 2) for x in random(2, rows, 3, 4, 64).unbind(2))
    return q, k, v


def check(found: Any, expected: Any, limit: float = 1e-3) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.device == expected.device
    error = (found.double() - expected.double()).norm()
    assert float(error) <= limit * float(expected.double().norm())


Q, K, V = random(2, 4, 70, 64), random(2, 4, 90, 64), random(2, 4, 90, 64)


def test_numbers(ours: Any) -> None:
    check(ours(Q, K, V), theirs(Q, K, V))
    check(ours(Q, K, V, is_causal=True), theirs(Q, K, V, is_causal=True))
    check(ours(Q, K, V, scale=0.5), theirs(Q, K, V, scale=0.5))


@pytest.mark.parametrize("shape", [(2, 1, 70, 90), (70, 90), (1, 4, 1, 90)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "float16", "float32"])
def test_masks(ours: Any, shape: tuple[int, ...], kind: str) -> None:
    mask = random(*shape, dtype="float32")
    mask = mask > 0 if kind == "bool" else mask.to(getattr(torch, kind))
    exact = mask if kind == "bool" else mask.half()
    check(ours(Q, K, V, mask), theirs(Q, K, V, exact))


def test_grouped_heads_of_bf16(ours: Any) -> None:
    q, k, v = (x.bfloat16() for x in (Q, K[:, :2], V[:, :2]))
    check(ours(q, k, v, enable_gqa=True), theirs(q, k, v, enable_gqa=True), 1e-2)


def test_transposed_views(ours: Any) -> None:
    q, k, v = transposed(90)
    found = ours(q, k, v)
    check(found, theirs(q, k, v))
    assert found.transpose(1, 2).is_contiguous()


def test_views_that_the_copy_engine_can_t_read(ours: Any) -> None:
    wide = random(2, 4, 90, 67)
    k, v = wide[..., 1:65], V[:1].expand(2, -1, -1, -1)
    check(ours(Q, k, v), theirs(Q, k, v))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("view", [False, True])
def test_the_operator_is_registered_properly(ours: Any, causal: bool, view: bool) -> None:
    arguments = transposed(90) if view else (Q, K, V)
    operator = torch.ops.tawa.attention.default
    found = torch.library.opcheck(operator, arguments, {"is_causal": causal})
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_in_one_graph(ours: Any, dynamic: bool) -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return ours(q * 2, k, v, is_causal=True) + 1

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    check(compiled(Q, K, V), theirs(Q * 2, K, V, is_causal=True) + 1)


def leaves(*tensors: Any) -> list[Any]:
    return [x.detach().clone().requires_grad_() for x in tensors]


def gradients(f: Any, *tensors: Any, **options: Any) -> list[Any]:
    """The gradients of a sum with weights, after two calls that have to agree in every bit."""
    found: list[list[Any]] = []
    for _ in range(2):
        given = leaves(*tensors)
        out = f(*given, **options)
        out.backward(random(*out.shape).to(out.dtype))
        found.append([x.grad for x in given])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    return found[0]


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(ours: Any, causal: bool) -> None:
    given = Q, K[:, :2], V[:, :2]
    found = gradients(ours, *given, is_causal=causal, enable_gqa=True)
    exact = gradients(theirs, *(x.double() for x in given), is_causal=causal, enable_gqa=True)
    for a, b in zip(found, exact, strict=True):
        check(a.double(), b, 2e-3)


def test_gradients_of_views_in_one_graph(ours: Any) -> None:
    def model(q: Any, k: Any, v: Any) -> Any:
        return ours(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)

    given = [x.transpose(1, 2) for x in transposed(90)]
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found, plain = gradients(compiled, *given), gradients(model, *given)
    assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))
    wanted = torch.library.opcheck(
        torch.ops.tawa.attention_forward.default, (*leaves(Q, K, V), None, True, None, True)
    )
    assert set(wanted.values()) == {"SUCCESS"}


def test_fake_tensors(ours: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, k = torch.empty(2, 4, 70, 64).half(), torch.empty(2, 4, 90, 64).half()
        found = ours(q, k, k[..., :32])
    assert found.shape == (2, 4, 70, 32)
    assert found.dtype == torch.float16


REFUSED = {
    "dropout": (lambda f: f(Q, K, V, dropout_p=0.1), "no dropout"),
    "heads": (lambda f: f(Q, K[:, :2], V[:, :2]), "different numbers of heads"),
    "mask and causal": (lambda f: f(Q, K, V, Q[..., :1], is_causal=True), "together"),
    "mask": (lambda f: f(Q, K, V, torch.ones(70, 91)), "does not fit the scores"),
    "gradient": (
        lambda f: f(Q.clone().requires_grad_(), K, V, torch.ones(70, 90)).sum().backward(),
        "no gradients",
    ),
    "type": (lambda f: f(Q.float(), K.float(), V.float()), "element types"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(ours: Any, name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(tawa.TawaError, match=message):
        call(ours)
