"""Each figure of the machine stands in one place, says where it comes from, and is used."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tawa.machine.chips import CHIPS, DEFAULT, H100, H200, Chip, chip_of
from tawa.machine.figures import Figure

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SOURCE = ROOT / "src" / "tawa"

ELSEWHERE = ("machine", "cuppl", "functional", "axon/onnx", "axon/sizes", "axon/typing")
"""Folders whose numbers are not looked at: the figures' own, and those that know no GPU."""

RETIRED = {9700, 6154, 6000, 232448, 233472, 227, 228}
"""Numbers by which figures stood in other files, besides the figures' own values."""

OTHERS = {
    ("axon/gpu/kernels.py", 255): "a byte's largest value",
}


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_each_figure_says_where_it_comes_from(chip: Chip):
    without = [f.name for f in chip.figures if f.source is None or not f.source.where]
    assert not without
    assert len(list(chip.figures)) > 100


def test_a_figure_without_a_source_is_seen():
    bare = replace(H100, sources={})
    assert {f.name for f in bare.figures if f.source is None} == {
        "l2_bytes", "memory_gbs", "clock_ghz", "capped_ghz"
    }  # fmt: skip


def cited(figures: Iterator[Figure]) -> Iterator[tuple[str, str, str | None]]:
    """Each file of rows that a source names, with the probe that it quotes, if any."""
    for figure in figures:
        assert figure.source is not None
        for file, probe in re.findall(r"(\S+\.jsonl)(?:, `([^`]*)`)?", figure.source.where):
            yield figure.name, file, probe or None


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_measurements_that_sources_name_are_kept(chip: Chip):
    rows = (RESULTS / "costs.jsonl").read_text().splitlines()
    probes = [json.loads(row)["case"].get("probe", "") for row in rows]
    for name, file, probe in cited(chip.figures):
        assert (RESULTS / file).exists(), name
        if probe is not None:
            assert any(known.startswith(probe) for known in probes), (name, probe)


def is_distinctive(value: object) -> bool:
    """Whether a number is a figure of the machine wherever it stands: three digits, no power of 2."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value == 0:
        return False
    digits = f"{value:.10g}".replace(".", "").strip("0").lstrip("-")
    near_power = value == int(value) and any((int(value) + d).bit_count() == 1 for d in (-1, 0, 1))
    return len(digits) >= 3 and not near_power


def folded(node: ast.AST) -> float | int | None:
    """The value of a number, or of an expression of numbers."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = folded(node.left), folded(node.right)
        if left is not None and right is not None:
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Pow) and abs(right) < 64:
                return left**right
            if isinstance(node.op, ast.Sub):
                return left - right
    return None


def numbers(text: str) -> Iterator[tuple[int, float | int]]:
    """The numbers of a module, with their lines."""
    for node in ast.walk(ast.parse(text)):
        value = folded(node)
        if value is not None and hasattr(node, "lineno"):
            yield node.lineno, value


def figures_in(text: str) -> list[tuple[int, float | int]]:
    """Where a module says a figure of the machine itself."""
    values = {f.value for chip in CHIPS.values() for f in chip.figures if is_distinctive(f.value)}
    return sorted({(line, v) for line, v in numbers(text) if v in values | RETIRED})


def test_no_figure_is_defined_twice():
    found = [
        (str(path.relative_to(SOURCE)), line, value)
        for path in sorted(SOURCE.rglob("*.py"))
        if not str(path.relative_to(SOURCE)).startswith(ELSEWHERE)
        for line, value in figures_in(path.read_text())
    ]
    assert [f for f in found if (f[0], f[2]) not in OTHERS] == []


@pytest.mark.parametrize(
    "text", ["SMS = 132", "L2 = 9700.0", "shared = 227 * 1024", "f(clock_ghz=1.755)", "x = 174.0"]
)
def test_a_second_definition_is_seen(text: str):
    assert figures_in(text)


def test_ordinary_numbers_are_no_figures():
    assert figures_in("a, b, c = 128, 2**32 - 1, 0.5\nwidth = 100\n") == []


def reads(name: str, text: str) -> bool:
    """Whether a figure is asked for, not only named in a text as an op's name is."""
    return re.search(rf"[.\w]\.{name}\b(?![\"'`])", text) is not None


def test_what_names_a_figure_does_not_read_it():
    assert reads("fence", "self.costs.fence + 1")
    assert not reads("fence", 'name = "hopper.fence"')
    assert not reads("fence", '"""Beside `hopper.fence`."""')


def test_each_figure_is_used():
    """A figure that nobody reads is not known to be right."""
    texts = [p.read_text() for p in SOURCE.rglob("*.py") if "machine/figures" not in str(p)]
    text = "\n".join(texts)
    unused = [
        figure.name for figure in H100.figures if not reads(figure.name.rpartition(".")[2], text)
    ]
    assert unused == []


def test_the_chips_differ_in_memory_alone():
    own = {f.name for f, g in zip(H100.figures, H200.figures, strict=True) if f.value != g.value}
    assert own == {"l2_bytes", "memory_gbs"}


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("NVIDIA H100 80GB HBM3", H100),
        ("NVIDIA H200", H200),
        ("NVIDIA GH200 480GB", DEFAULT),
        ("NVIDIA H800", DEFAULT),
    ],
)
def test_a_device_is_known_by_its_name(name: str, chip: Chip):
    assert chip_of(name) is chip
