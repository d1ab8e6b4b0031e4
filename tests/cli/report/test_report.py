"""What a report says of kernels: links, occupancy, work, timelines and pictures."""

import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tawa.base.timeline import Activity, Interval
from tawa.cli.app import command_line
from tawa.cli.kernel_file import NoExample, find_kernel
from tawa.cli.report.code import Pane
from tawa.cli.report.launch import on_host
from tawa.cli.report.listing import source_listing
from tawa.cli.report.model import Report, build
from tawa.cli.report.page import html
from tawa.cli.report.timeline import MOST_BARS, shares, timeline
from tawa.cli.reporting import (
    BadLaunchExpression,
    LaunchCommand,
    NotMeasured,
    OutputNotWritable,
    write_file,
    write_report,
)
from tawa.cli.timeline import UnknownPictureFormat, drawn, format_of, write_timeline
from tawa.machine.chips import H100
from tawa.runtime.descriptor import TensorDescriptor

EXAMPLES = Path(__file__).parents[3] / "examples"
KERNELS = (
    "attention.py:attention",
    "control_flow.py:newton_root",
    "gemm.py:gemm",
    "gemm_layouts.py:gemm_layouts",
    "linear_attention.py:linear_attention",
    "matmul_pointers.py:matmul_pointers",
    "softmax.py:softmax",
)
ENGINES = {"HGMMA": "wgmma_m", "UTMALDG": "tma_load(", "UTMASTG": "tma_store(", "STSM": "stmatrix"}
"""Opcodes that one function of CUDA C++ stands for."""


def begin(command: LaunchCommand) -> tuple[str, int]:
    source = command.found.kernel.source
    return source.file, source.first_line


@cache
def report_of(where: str, launch: bool = True) -> Report:
    command = LaunchCommand(str(EXAMPLES / where))
    request = command.command.request()
    found = command.launch() if launch else None
    return build(command.compile(), begin(command), request, found)


@pytest.fixture(scope="module")
def gemm() -> Report:
    return report_of("gemm.py:gemm")


def pane(report: Report, name: str) -> Pane:
    return next(pane for pane in report.panes if pane.name == name)


@pytest.mark.parametrize("where", KERNELS)
def test_every_example_has_a_page_whose_links_are_right(where: str):
    report = report_of(where)
    cuda = {line.label: line for line in pane(report, "cuda").lines}
    of_op: dict[int, str] = {}
    for line in cuda.values():
        if line.op is not None:
            of_op[line.op] = of_op.get(line.op, "") + line.text + "\n"
    for line in pane(report, "sass").lines:
        for opcode_, function in ENGINES.items():
            # The assembler issues an empty product where it leaves out those nobody reads.
            empty = "gdesc[URZ]" in line.text
            if re.match(rf"(@\S+)?\s*{opcode_}\b", line.text) and not empty:
                assert line.op is not None, line.text
                assert function in of_op[line.op], f"{line.label} {line.text}"
    assert of_op
    linked = [line for line in pane(report, "sass").lines if line.op is not None]
    assert len(linked) > 0.7 * len(pane(report, "sass").lines)
    source = "\n".join(line.text for line in pane(report, "source").lines)
    assert f"def {report.compiled.name}(" in source
    page = html(report)
    assert len(page) < 3e6
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert page.count("<!--") == 0


def test_lines_of_the_levels_are_linked_with_the_source(gemm: Report):
    (dot,) = [line for line in pane(gemm, "source").lines if "tl.dot" in line.text]
    for level, op in (("tile", "tile.dot"), ("aref", "aref.dot_issue"), ("hopper", "wgmma ")):
        found = [line for line in pane(gemm, level).lines if op in line.text]
        assert found
        assert all(line.places == dot.places for line in found), level


def test_each_copy_is_linked_with_its_own_load(gemm: Report):
    for operand in ("a", "b"):
        (load,) = [x for x in pane(gemm, "source").lines if f"{operand}_desc.load" in x.text]
        word = f"hopper.tma_load %{operand}_desc_map"
        copies = [line for line in pane(gemm, "hopper").lines if word in line.text]
        assert copies
        assert all(line.places == load.places for line in copies)


def test_a_loop_is_linked_with_its_head_alone(gemm: Report):
    heads = [line for line in pane(gemm, "tile").lines if "scf.for" in line.text]
    assert [len(line.places) for line in heads] == [1]
    (place,) = heads[0].places
    (line,) = [line for line in pane(gemm, "source").lines if place in line.places]
    assert line.text.strip().startswith("for k in range(")


def test_hopper_lines_and_what_they_write_have_the_same_op(gemm: Report):
    hopper = {line.op: line.text for line in pane(gemm, "hopper").lines}
    for line in pane(gemm, "cuda").lines:
        if "tma_load(" in line.text and not line.folded:
            assert "hopper.tma_load" in hopper[line.op]
        if "mbarrier_wait(" in line.text and not line.folded:
            assert "hopper.mbarrier_wait" in hopper[line.op]


def test_the_source_shows_whole_functions_with_their_numbers(tmp_path: Path):
    path = tmp_path / "two.py"
    path.write_text("x = 1\n\n\ndef a():\n    return 1\n\n\n@wrap\ndef b():\n\n    return 2\n")
    found = source_listing((str(path), 8), [(str(path), 5)])
    assert [(line.label, line.text) for line in found] == [
        ("", "two.py"),
        ("4", "def a():"),
        ("5", "    return 1"),
        ("", ""),
        ("8", "@wrap"),
        ("9", "def b():"),
        ("10", ""),
        ("11", "    return 2"),
    ]


def test_the_buffers_fill_what_the_kernel_asks_for(gemm: Report):
    found = gemm.occupancy
    for before, after in zip(found.buffers, found.buffers[1:], strict=False):
        assert before.offset + before.bytes <= after.offset
    last = found.buffers[-1]
    assert last.offset + last.bytes == found.shared_bytes == gemm.compiled.spec.shared_bytes
    assert found.limits["shared memory"] == 1
    assert found.ctas == 1


def test_registers_are_those_of_the_roles(gemm: Report):
    roles = {role.name: role for role in gemm.occupancy.roles}
    assert (roles["math"].warps, roles["math"].registers) == (8, 232)
    assert (roles["load"].warps, roles["load"].registers) == (4, 40)
    assert gemm.occupancy.registers_in_use == 256 * 232 + 128 * 40 <= H100.registers


def test_small_kernels_share_a_multiprocessor():
    found = report_of("vector_add.py:vector_add").occupancy
    assert found.ctas == min(found.limits.values()) > 1


def test_the_work_of_a_gemm_is_counted(gemm: Report):
    assert gemm.predicted is not None
    work, bounds = gemm.predicted.work, gemm.predicted.bounds
    tiles, turns = 3 * 3, 4  # of 128 x 256, and of 64
    assert work.counted == work.clusters == tiles
    assert work.amounts.flops == tiles * turns * 2 * 128 * 256 * 64
    assert work.amounts.loaded == tiles * turns * 2 * (128 + 256) * 64
    assert work.array_bytes == 2 * (300 * 200 + 520 * 200 + 300 * 520)
    peak_us = work.amounts.tensor_cycles / H100.capped_ghz / 1e3  # a kernel of products
    assert peak_us == pytest.approx(work.amounts.flops / bounds.peak * 1e6 * H100.multiprocessors)
    assert bounds.limits == tuple(sorted(bounds.limits, key=lambda limit: -limit.share))


def test_a_large_gemm_is_bound_by_what_works_most(tmp_path: Path):
    launch = (
        "launch(np.empty((8192, 2048), np.float16), np.empty((4096, 2048), np.float16), "
        "np.empty((8192, 4096), np.float16), persistent=True)"
    )
    command = LaunchCommand(str(EXAMPLES / "gemm.py:gemm"), expression=launch)
    request = command.command.request()
    found = build(command.compile(), begin(command), request, command.launch())
    assert found.predicted is not None
    bounds = found.predicted.bounds
    assert bounds.bound == bounds.limits[0].name in ("tensor core", "copies from L2")
    assert 0.3 * bounds.peak < bounds.flops_per_second < bounds.peak
    assert found.predicted.work.amounts.flops == pytest.approx(2 * 8192 * 4096 * 2048, rel=0.05)


def test_a_report_without_a_launch_has_no_times():
    page = html(report_of("softmax.py:softmax", launch=False))
    assert "Where the time goes" not in page
    assert "Registers and occupancy" in page


def test_measured_bars_are_below_the_predicted_ones():
    command = LaunchCommand(str(EXAMPLES / "softmax.py:softmax"))
    wait = Activity("barrier wait", "a_full", "hopper.mbarrier_wait", "softmax.py:25:9")
    measured = [
        Interval("main", wait.name, 0, 10, wait),
        Interval("main", "work", 10, 30, Activity("work", place="softmax.py:26:9")),
        Interval("products of main", "wgmma", 5, 25),
    ]
    request = command.command.request()
    compiled = command.compile()
    report = build(
        compiled,
        begin(command),
        request,
        command.launch(),
        measured=timeline("measured", measured, 1.7),
    )
    assert [found.title for found in report.timelines] == ["predicted", "measured"]
    lanes = {lane.name: lane for lane in report.timelines[1].lanes}
    assert [bar.kind for bar in lanes["main"].bars] == ["wait", "work"]
    assert lanes["main"].bars[0].places == (("softmax.py", 25),)
    assert lanes["products of main"].bars[0].kind == "tensor"
    data = json.loads(re.search(r'id="data">(.*?)</script>', html(report), re.S)[1])
    assert [found["title"] for found in data["timelines"]] == ["predicted", "measured"]


def test_overlapping_bars_get_rows_of_their_own():
    spans = [(0, 10), (5, 15), (10, 20), (12, 14)]
    (lane,) = timeline("x", [Interval("copies", "a", *span) for span in spans], 1.0).lanes
    assert lane.rows == 3
    assert [bar.row for bar in lane.bars] == [0, 1, 0, 2]


def test_the_lanes_of_a_cluster_are_those_of_each_cta():
    tracks = ["CTA 0 math", "copies of CTA 0", "CTA 1 math", "copies of CTA 1", "CTA 1 idle warp 7"]
    found = timeline("x", [Interval(track, "a", 0, 1) for track in tracks], 1.0)
    names = [lane.name for lane in found.lanes]
    assert names == ["CTA 0 copies", "CTA 0 math", "CTA 1 copies", "CTA 1 math"]
    alone = timeline(
        "x", [Interval("math", "a", 0, 1), Interval("copies of CTA 0", "b", 0, 1)], 1.0
    )
    assert [lane.name for lane in alone.lanes] == ["copies", "math"]


def test_a_timeline_that_is_too_long_says_what_is_left_out():
    many = [Interval("a", "b", i, i + 1) for i in range(MOST_BARS + 7)]
    found = timeline("x", many, 1.0, iterations_left_out=3)
    assert found.left_out == 7
    assert found.note == "(3 later iterations and 7 later intervals left out)"
    assert timeline("x", many[:5], 1.0).note == ""


class OnDevice:
    """An array of some library, on a GPU that this machine need not have."""

    def __init__(self, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None):
        self.dtype = SimpleNamespace(name=dtype)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "|V2",
            "data": (1 << 20, False),
            "strides": strides,
            "version": 3,
        }


def test_arrays_of_other_libraries_have_stand_ins_of_their_sizes():
    plain = on_host(OnDevice((64, 128), "bfloat16"))
    assert (plain.shape, plain.dtype.name, plain.strides) == ((64, 128), "uint16", (256, 2))
    strided = on_host(OnDevice((64, 100), "float16", (512, 2)))
    assert (strided.shape, strided.strides) == ((64, 100), (512, 2))
    described = on_host(TensorDescriptor.from_tensor(OnDevice((64, 128), "float16"), [64, 64]))
    assert isinstance(described.base, np.ndarray)
    assert tuple(described.shape) == (64, 128)
    assert on_host(3) == 3


def test_the_simulators_times_do_not_pass_for_measured_ones(tmp_path: Path):
    command = LaunchCommand(str(EXAMPLES / "vector_add.py:vector_add"))
    with pytest.raises(NotMeasured, match="in the simulator"):
        write_report(command, tmp_path / "page.html", None, measure=True)
    assert not (tmp_path / "page.html").exists()


# --- files ------------------------------------------------------------------------------------


def test_a_timeline_is_written_as_its_suffix_says(tmp_path: Path):
    command = LaunchCommand(str(EXAMPLES / "gemm.py:gemm"))
    paths = [tmp_path / f"gemm.{suffix}" for suffix in ("json", "svg", "png")]
    for path in paths:
        assert re.fullmatch(
            r"predicted \d+\.\d\d us at 1\.500 GHz", write_timeline(command, path, None)
        )
    trace = json.loads(paths[0].read_text())
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"gemm (predicted)", "load", "math.0", "tensor core of CTA 0"} <= names
    drawing = ET.parse(paths[1]).getroot()
    texts = {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"load", "copies", "math.0", "math.1", "tensor core", "stores"} <= texts
    assert paths[2].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    image_module = pytest.importorskip("PIL.Image")
    image = image_module.open(paths[2]).convert("RGB")
    colours = {colour for _, colour in image.getcolors(maxcolors=1 << 24)}
    assert {(0xD9, 0x82, 0x2B), (0x2F, 0x86, 0xC9), (0x3C, 0x9A, 0x62)} <= colours


def test_timelines_are_drawn_above_each_other():
    found = [
        timeline(t, [Interval("main", "work", 0, 100)], 1.0) for t in ("predicted", "measured")
    ]
    text = drawn("both", found, ".svg").decode()
    assert text.index(">predicted<") < text.index(">measured<")


def test_an_unknown_suffix_is_an_error():
    with pytest.raises(UnknownPictureFormat) as error:
        format_of(Path("timeline.pdf"))
    assert "ends in .json, .svg or .png" in str(error.value)


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path):
    with pytest.raises(OutputNotWritable, match="No such file"):
        write_file(tmp_path / "no" / "page.html", b"")


BROKEN = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def broken(x, n):
    tl.store(x + tl.arange(0, 128), tl.dot(n, n))


@tawa.jit
def fine(x):
    tl.store(x, 1.0)


def example_broken():
    broken[(1,)](np.zeros(128, np.float32), 3)
"""


def test_a_kernel_that_does_not_compile_gives_its_error_and_no_page(tmp_path: Path):
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    output = tmp_path / "page.html"
    with pytest.raises(Exception, match="dot") as error:
        command_line(["report"])(
            ["report", f"{file}:broken", "-o", str(output)], standalone_mode=False
        )
    shown = error.value.render()
    assert "broken.py:9" in shown
    assert re.search(r"^ +\| +\^+$", shown, re.M)
    assert not output.exists()


def test_an_expression_can_stand_for_the_example(tmp_path: Path):
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    with pytest.raises(NoExample):
        LaunchCommand(f"{file}:fine").launch()
    expression = "fine[(2,)](np.zeros(4, np.float32))"
    path = write_report(
        LaunchCommand(f"{file}:fine", expression=expression), tmp_path / "fine.html", 1.5
    )
    assert "at 1.500 GHz" in path.read_text()
    with pytest.raises(BadLaunchExpression, match="NameError"):
        LaunchCommand(f"{file}:fine", expression="fine[(2,)](nothing)").launch()


def test_with_types_alone_there_is_a_page_too(tmp_path: Path):
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    command = LaunchCommand(f"{file}:fine", types=["x=ptr:f32"])
    path = write_report(command, tmp_path / "fine.html", None)
    assert "Where the time goes" not in path.read_text()
    assert find_kernel(f"{file}:fine").kernel.arg_names == ["x"]


def test_roles_and_tiles_are_not_counted_as_work_of_their_own():
    """What a measured role does fills it: its parts are all of its time, never more."""
    named = Activity("work", "exp2", "ew.map", "k.py:3:1")
    wait = Activity("barrier wait", "a_full", "hopper.mbarrier_wait", "k.py:2:1")
    intervals = [
        Interval("math", "role math", 0, 100),
        Interval("math", "tile", 0, 100),
        Interval("math", wait.name, 0, 40, wait),
        Interval("math", named.name, 40, 100, named),
    ]
    found = timeline("measured", intervals, 1.0)
    (lane,) = found.lanes
    assert shares(lane, found.cycles) == {"barrier wait a_full": 0.4, "work": 0.6}
    assert [bar.name for bar in lane.bars] == ["tile", "barrier wait a_full", "work exp2"]
