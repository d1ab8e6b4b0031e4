"""A mapping changes speed, never results: random legal mappings, bit for bit."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_programs import case

from tawa.tasks import Instance, Mapping

TILE = st.sampled_from(["register", "shared"])
PLACE = st.sampled_from(["global", "none"])
SIDE = st.sampled_from([16, 32, 64, 128])


@st.composite
def mappings(draw: Any) -> Mapping:
    """Mappings of the product: tiles, memories, processors, options."""
    u, v, w = draw(SIDE), draw(SIDE), draw(st.sampled_from([16, 32, 64]))
    of_leaf = {name: draw(TILE) for name in ("acc", "a", "b")}
    grid = Instance(
        "gemm_grid",
        processor=draw(st.sampled_from([None, "device"])),
        memories={name: draw(PLACE) for name in "cab"},
        tunables={"U": u, "V": v},
    )
    block = Instance(
        "gemm_block",
        processor="block",
        memories={name: draw(PLACE) for name in "cab"}
        | {"acc": draw(st.sampled_from(["register", "shared", "none", "global"]))},
        tunables={"W": w},
        tile_order=draw(st.sampled_from([None, 1, 3])),
        pipeline=draw(st.sampled_from([None, 2])),
    )
    return Mapping(
        grid,
        block,
        Instance("multiply_tile", memories=of_leaf),
        Instance("clear_tile", memories={"to": draw(TILE)}),
        Instance("copy_tile", memories={"to": draw(TILE), "of": draw(TILE)}),
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(mapping=mappings(), name=st.sampled_from(["gemm"]), odd=st.booleans())
def test_results_do_not_change(mapping: Mapping, name: str, odd: bool):
    found = case(name, odd=odd)
    outputs = [np.full_like(out, np.nan) for out in found.outputs]
    found.task.interpret(*outputs, *found.inputs, mapping=mapping)
    mapped = [np.full_like(out, np.nan) for out in found.outputs]
    found.task.compile(*mapped, *found.inputs, mapping=mapping).simulate((*mapped, *found.inputs))
    for one, other in zip(outputs, mapped, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("memory", "load"), [("shared", "_desc.load("), ("register", "tl.load(")])
def test_the_memory_of_a_leafs_argument_says_how_it_is_loaded(memory: str, load: str):
    found = case("gemm")
    mapping = Mapping(Instance("multiply_tile", memories={"a": memory}))
    program = found.task.compile(*found.outputs, *found.inputs, mapping=mapping)
    (line,) = [
        s
        for s in program.stages["gemm_block_kernel"].splitlines()
        if " a4 = " in s or " a3 = " in s
    ]
    assert load in line


@pytest.mark.parametrize("rows", [16, 32, 64])
@pytest.mark.parametrize("width", [16, 64])
def test_attention_and_stencil(rows: int, width: int):
    mapping = Mapping(
        Instance("attention_grid", tunables={"U": rows}),
        Instance("attend_block", tunables={"V": width}, memories={"q": "none", "k": "none"}),
        Instance("add_keys_tile", memories={"q": "shared", "k": "register"}),
    )
    found = case("attention", odd=True)
    found.check(lambda *a: found.task.compile(*a, mapping=mapping).simulate(a))
    mapping = Mapping(Instance("step_grid", tunables={"rows": rows, "columns": width}))
    found = case("stencil", odd=True)
    found.check(lambda *a: found.task.compile(*a, mapping=mapping).simulate(a))


@pytest.mark.parametrize("odd", [False, True])
def test_attention_in_its_second_form(odd: bool):
    """The scores of the next block beside the softmax of this one: the same bit for bit."""
    mapping = Mapping(Instance("attend_block", variant="attend_ahead"))
    found = case("attention", odd=odd)
    found.check(lambda *a: found.task.compile(*a, mapping=mapping).simulate(a))
    one, other = (np.full_like(found.outputs[0], np.nan) for _ in range(2))
    found.task.interpret(one, *found.inputs, mapping=mapping)
    found.task.interpret(other, *found.inputs)
    assert np.array_equal(one, other)


def test_written_and_read_again(tmp_path: Any):
    mapping = Mapping(
        Instance("gemm_grid", tunables={"U": 64, "V": 32}, calls=("block",), entry=True),
        Instance("block", variant="gemm_block", processor="block", pipeline=2),
    )
    mapping.write(tmp_path / "gemm_mapping.py")
    again = Mapping.read(tmp_path / "gemm_mapping.py")
    assert again.text() == mapping.text()
    found = case("gemm")
    found.check(lambda *a: found.task.compile(*a, mapping=again).simulate(a))


def test_options_reach_the_kernel():
    mapping = Mapping(
        Instance("gemm_block", pipeline=3, warp_groups=1, warp_specialize=True),
        Instance("multiply_tile", options={"persistent": True}),
    )
    found = case("gemm")
    program = found.task.compile(*found.outputs, *found.inputs, mapping=mapping)
    wanted = {"num_stages": 3, "consumers": 1, "specialize": True, "persistent": True}
    assert program.launches[0].options == wanted


def test_a_cap_takes_slots_away():
    found = case("gemm")
    outs = [np.full_like(out, np.nan) for out in found.outputs]
    mapping = Mapping(Instance("gemm_block", shared_cap=100_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = found.task(*outs, *found.inputs, mapping=mapping)
    assert np.abs(outs[0] - found.expected[0]).max() < 0.1
    kernel = program.kernel(program.launches[0])
    given_ = program.arguments(program.launches[0], (*outs, *found.inputs))
    options = program.options(program.launches[0], kernel, given_)
    assert kernel.compile(*given_, **options).spec.shared_bytes <= 100_000
