"""Several devices by mapping alone: NumPy arrays stand for devices, work is done in any legal order."""

from typing import Any

import devices_tasks as programs
import numpy as np
import pytest
import stencil_devices_tasks as stencil

from tawa.runtime.arrays import view
from tawa.runtime.peers import rows_of
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    Instance,
    Mapping,
    Sharded,
    copy,
    launch,
    make_tensor,
    node_calls,
    prange,
    srange,
    task,
)
from tawa.tasks import partition_by_blocks as cut
from tawa.tasks.devices import node
from tawa.tasks.devices.held import Piece
from tawa.tasks.devices.ordering import conflicts
from tawa.tasks.language.errors import AliasingIterations, BadMapping, WrongTaskArguments
from tawa.tasks.node_calls import NodeCalls

SPREAD: dict[str, Any] = {
    "sharded_gemm": (0, 0, 1),
    "gather_gemm": (1, 0, 1),
    "gemm_scatter": (0, 1, 0),
}
"""The dimensions along which C, A and B are sharded."""


def ran(name: str, seed: int, devices: int = 2, **tunables: int) -> tuple[Any, Any, Any]:
    """The result on devices, the result on one, and the run."""
    c, a, b, exact = programs.operands(144, 96, 80)
    program = getattr(programs, name)
    one = np.full_like(c, np.nan)
    program.compile(one, a, b).simulate((one, a, b))
    assert np.abs(one - exact).max() < 0.05
    given = [
        programs.shards(x, devices, dim) for x, dim in zip((c, a, b), SPREAD[name], strict=True)
    ]
    mapping = programs.on_devices(f"{name}_node", devices, **tunables)
    run = NodeCalls(program, program.call_on_device).call(given, mapping, seed)
    return programs.gathered(given[0]), one, run


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SPREAD)
def test_results_of_one_device(name: str, seed: int):
    found, one, _ = ran(name, seed)
    if name == "gemm_scatter":  # parts are rounded alike, whoever adds them
        assert np.abs(found - one).max() < 0.02
    else:
        assert np.array_equal(found, one)


@pytest.mark.parametrize("name", ["sharded_gemm", "gather_gemm"])
def test_more_devices_are_another_mapping(name: str):
    found, one, run = ran(name, 0, devices=4)
    assert np.array_equal(found, one)
    assert {"device 3", "copies to 3"} <= {work.stream for work in run.works}


def test_what_travels():
    """Each device gets the two panels that it lacks, while it multiplies its own."""
    lines = ran("sharded_gemm", 0)[2].events.splitlines()
    copies = [line for line in lines if "copy" in line]
    assert len(copies) == 4
    assert copies[0].endswith("copy b[0:80, 48:72] from device 1 to device 0")
    assert "after" not in copies[0]
    sums = ran("gemm_scatter", 0)[2].events.splitlines()
    between = ("from device 0 to device 1", "from device 1 to device 0")
    travel = [line for line in sums if "copy made[" in line]
    assert len(travel) == 4  # a device's own parts lie where they are added
    assert all(line.partition(" after")[0].endswith(between) for line in travel)


def test_calls_alike_are_recorded_once(monkeypatch: pytest.MonkeyPatch):
    """Others' arrays are put in; other shapes, or another mapping, are recorded anew."""
    program, recorded = programs.sharded_gemm, list[Any]()
    monkeypatch.setattr(
        node_calls, "record", lambda *given: recorded.append(given) or node.record(*given)
    )
    calls = NodeCalls(program, program.call_on_device)

    def call(rows: int, panels: int) -> None:
        c, a, b, exact = programs.operands(rows, 96, 80)
        a, exact = a * rows, exact * rows
        given = [programs.shards(x, 2, d) for x, d in zip((c, a, b), (0, 0, 1), strict=True)]
        calls.call(given, programs.on_devices("sharded_gemm_node", 2, panels=panels))
        assert np.abs(programs.gathered(given[0]) - exact).max() < 0.05 * rows

    for rows, panels in ((144, 4), (144, 4), (96, 4), (144, 2), (96, 4)):
        call(rows, panels)
    assert len(recorded) == 3


def test_an_event_that_is_missing_shows(monkeypatch: pytest.MonkeyPatch):
    """The simulated devices do not hide what nothing orders."""
    monkeypatch.setattr(Piece, "before_read", lambda piece, box: [])
    wrong = 0
    for seed in range(8):
        found, one, _ = ran("gemm_scatter", seed)
        wrong += not np.abs(found.astype(float) - one).max() < 0.02
    assert wrong


@task(y=WRITE, x=READ)
def twice_over(y, x, kind):
    """What goes wrong depends on `kind`."""


@twice_over.inner
def twice_over_node(y, x, kind):
    size = 16 if kind == "race" else 24
    to, of = cut(y, (size,)), cut(x, (size,))
    for d in prange(2):
        if kind == "race":
            launch(copy, to[0], of[d])
        else:
            launch(copy, cut(to[d], (16,))[0], cut(of[d], (16,))[1])


@pytest.mark.parametrize("seed", range(3))
def test_a_halo_travels_while_the_inside_is_computed(seed: int):
    x = np.random.default_rng(seed).standard_normal((48, 40)).astype(np.float32)
    y, other = (programs.shards(np.full_like(x, np.nan), 2) for _ in range(2))
    mapping = programs.on_devices("diffuse_strips_node", 2, edge=4)
    calls = NodeCalls(stencil.diffuse_strips, stencil.diffuse_strips.call_on_device)
    run = calls.call([y, programs.shards(x, 2), other, 3, 0.125], mapping, seed)
    exact = stencil.reference(x.astype(np.float64), 3, 0.125)
    assert np.abs(programs.gathered(y) - exact).max() < 1e-5
    events = [line.partition(": ")[2] for line in run.events.splitlines()]
    # The second step's row of device 1 waits for that edge alone, not for what is inside.
    place = events.index("copy y[24:25, 0:40] from device 1 to device 0 after e9")
    inside, edge = run.works[6], run.works[9]
    assert inside.stream == edge.stream == "device 1"
    assert (inside.copies, edge.copies, place > 9) == (False, False, True)


@task(y=READ_WRITE, x=READ_WRITE)
def swap(y, x):
    """Halves of x change places, by way of y."""


@swap.inner
def swap_node(y, x):
    to, of = cut(y, (16,)), cut(x, (16,))
    for d in prange(2):
        launch(copy, to[d], of[1 - d])
    for d in prange(2):
        launch(copy, of[d], to[d])


@pytest.mark.parametrize("name", [*SPREAD, "diffuse_strips", "swap"])
def test_order_is_proved(name: str, monkeypatch: pytest.MonkeyPatch):
    """All that touches the same elements is ordered; without events it is not."""
    assert not list(conflicts(recorded(name)))
    for method in ("before_read", "before_write"):
        if method == "before_read" or name == "swap":
            with monkeypatch.context() as patch:
                patch.setattr(Piece, method, lambda piece, box: [])
                assert any("in no order" in line for line in conflicts(recorded(name)))


def recorded(name: str) -> Any:
    """What a call does, without its kernels."""
    x = np.zeros((48, 40), np.float32)
    if name == "swap":
        program, given = swap, [programs.shards(x[0, :32], 2) for _ in range(2)]
    elif name == "diffuse_strips":
        program = stencil.diffuse_strips
        given = [*(programs.shards(x, 2) for _ in range(3)), 3, 0.125]
    else:
        program, arrays = getattr(programs, name), programs.operands(144, 96, 80)
        given = [programs.shards(x, 2, d) for x, d in zip(arrays, SPREAD[name], strict=False)]
    tunables = {"edge": 4} if name == "diffuse_strips" else {}
    node_ = Instance(f"{name}_node", processor="node", tunables=tunables)
    calls = lambda task, entry: lambda args, own: None  # noqa: E731
    return node.record(program, given, Mapping(node_, devices=2), calls)


def test_what_can_be_wrong():
    x = np.zeros(48, np.float32)
    mapping = Mapping(Instance("twice_over_node", processor="node"), devices=2)
    with pytest.raises(AliasingIterations, match="iterations 0 and 1") as found:
        twice_over(np.zeros_like(x), x, "race", mapping=mapping)
    assert "in the task tree: twice_over_node" in str(found.value)
    with pytest.raises(BadMapping, match="ends inside of a box"):
        twice_over(np.zeros_like(x), x, "ends", mapping=mapping)
    c, a, b, _ = programs.operands(8, 8, 8)
    with pytest.raises(BadMapping, match="`panels`, which is not a tunable"):
        programs.gather_gemm(c, a, b, mapping=programs.on_devices("gather_gemm_node", panels=2))
    with pytest.raises(WrongTaskArguments, match="do not fit each other"):
        Sharded([np.zeros((2, 3)), np.zeros((2, 4))])


def test_boxes_past_the_end_are_zeros_on_a_device():
    x = np.arange(40, dtype=np.float32)
    y = np.full_like(x, np.nan)
    mapping = Mapping(Instance("halves_node", processor="node"), devices=2)
    halves(y, Sharded([x[:25].copy(), x[25:].copy()]), mapping=mapping)
    assert np.array_equal(y, x)


@pytest.mark.parametrize("seed", range(3))
def test_a_last_part_that_reaches_past_the_end(seed: int):
    """Of a tensor that the program makes: its owner has the rows that there are."""
    c, a, b, exact = programs.operands(52, 24, 20)
    given = [programs.shards(x, 4, d) for x, d in zip((c, a, b), (0, 1, 0), strict=True)]
    mapping = programs.on_devices("gemm_scatter_node", 4, chunks=12)
    program = programs.gemm_scatter
    NodeCalls(program, program.call_on_device).call(given, mapping, seed)
    assert np.abs(programs.gathered(given[0]) - exact).max() < 0.05


@task(y=WRITE, x=READ)
def overlapping(y, x):
    """y = x, by way of boxes that two devices write one after the other, the second half anew."""


@overlapping.inner
def overlapping_node(y, x):
    kept = make_tensor((24,), x.dtype)
    for step in srange(2):
        for d in prange(2):
            if d == step:
                launch(copy, cut(kept, (16,), (8 * step,))[0], cut(x, (16,), (8 * step,))[0])
    for d in prange(2):
        launch(copy, cut(y, (12,))[d], cut(kept, (12,))[d])


def test_boxes_that_are_written_twice():
    """What nobody has yet belongs to who writes it, beside what others have."""
    x, y = np.arange(24, dtype=np.float32), np.full(24, np.nan, np.float32)
    mapping = Mapping(Instance("overlapping_node", processor="node"), devices=2)
    overlapping(y, x, mapping=mapping)
    assert np.array_equal(y, x)


@task(y=WRITE, x=READ)
def halves(y, x):
    """y = x, in boxes of which the last reaches past the end."""


@halves.inner
def halves_node(y, x):
    to, of = cut(y, (32,)), cut(x, (32,))
    for d in prange(2):
        launch(copy, to[d], of[d])


def test_rows_that_one_copy_moves():
    """Pointers, pitches and counts of boxes of all kinds, by moving bytes."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((4, 6, 8, 10)).astype(np.float32)
    for box in (
        whole, whole[1], whole[:, 2:4], whole[1, :, 3], whole[:, :, :, 2:7], whole[:, ::2, 1, 1:],
        whole[2:3, 1:5, 2:3], whole[:0],
    ):  # fmt: skip
        target = np.zeros_like(box)
        at = view(target).pointer
        raw = bytearray(target.nbytes)
        pairs = rows_of(view(box), view(target))
        source = whole.tobytes()
        for (first, pitch, width, count), (to, to_pitch, _, _) in pairs:
            for row in range(count):
                a, b = first + row * pitch - view(whole).pointer, to + row * to_pitch - at
                raw[b : b + width] = source[a : a + width]
        assert np.array_equal(np.frombuffer(raw, np.float32).reshape(box.shape), box)
    assert len(rows_of(view(whole), view(whole))) == 1
