"""`tawa axon` as a user runs it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from tawa.axon.tools.cli import app
from tawa.axon.typing.errors import ShapeMismatch
from tawa.functional.errors import ProgramSyntaxError

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"
runner = CliRunner()


def output_of(*arguments: object, typed: str | None = None) -> str:
    result = runner.invoke(app, [str(a) for a in arguments], input=typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_infer():
    text = output_of("infer", EXAMPLES / "unet.ax")
    assert "t[b, c, 4*h, 4*w] -> t[b, o5, 4*h, 4*w]" in text
    assert "`height` must be a multiple of 2, because `stage` at line 17 and `concat`" in text


def test_infer_says_which_names_are_never_used(tmp_path: Path):
    file = tmp_path / "f.ax"
    file.write_text(
        "def mlp (w1, b1, w2, b2) x =\n  let _last = sum x in\n"
        "  x |> linear w1 b1 |> gelu |> linear w1 b2\n"
        "def ones_like (x: t[n]) = ones{[n]}\n"
    )
    lines = output_of("infer", file).splitlines()
    assert [line for line in lines if "never" in line] == ["  `w2` at line 1 is never used"]


def test_run():
    text = output_of("run", EXAMPLES / "mlp.ax", "mlp_broadcast", "3x4", "4", "4x2", "2", "5x3")
    assert text.endswith(": float32[5, 2]\n")
    text = output_of("run", EXAMPLES / "attention.ax", "self_attention",
                     "(8x8,8x8,8x4,4x8)", "2x5x8", "-s", "h=4")  # fmt: skip
    assert text.endswith(": float32[2, 5, 8]\n")


@pytest.mark.parametrize("argument", ["(3x4,4", "1.2.3", "abc", "q8:2x3", "missing.npy"])
def test_arguments_that_cant_be_read(argument: str):
    result = runner.invoke(app, ["run", str(EXAMPLES / "mlp.ax"), "mlp_broadcast", argument])
    assert result.exit_code == 2


def test_a_static_argument_that_is_no_number():
    result = runner.invoke(app, ["run", str(EXAMPLES / "probes.ax"), "half", "4", "-s", "n=x"])
    assert result.exit_code == 2
    assert "NAME=NUMBER" in result.output


def test_a_file_that_is_no_text(tmp_path: Path):
    (tmp_path / "f.ax").write_bytes(bytes([255, 254]))
    with pytest.raises(ProgramSyntaxError, match="not UTF-8"):
        output_of("infer", tmp_path / "f.ax")


def test_check(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    entries = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "K"]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 5]),
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    model = helper.make_model(helper.make_graph([node], "g", entries, outputs))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    text = output_of("check", path, "--values")
    assert "output y : [N, 5]" in text
    assert "requires `K` must be 4, because MatMul `product` fixes K = 4" in text
    text = output_of("check", path, "-i", "x=2,4")
    assert "output y : [2, 5]" in text
    with pytest.raises(ShapeMismatch):
        output_of("check", path, "-i", "x=2,3")
    assert "remark" not in text


def test_check_with_a_rule(tmp_path: Path):
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "K"])
    gate = helper.make_node("Gate", ["x"], ["y"], domain="my")
    outputs = [helper.make_empty_tensor_value_info("y")]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph([gate], "g", [entry], outputs)), path)
    text = output_of("check", path)
    assert "output y : [..?]" in text
    assert "remark there is no rule for the operator `my:Gate`: what Gate `y` gives" in text
    text = output_of("check", path, "--rule", "my:Gate=t[..s, 2*n] -> t[..s, n]")
    assert "output y : [N, (K//2)]" in text
    assert "requires 2 divides K, for Gate `y`" in text
    assert "remark" not in text


@pytest.mark.parametrize("name", ["unet", "lstm", "transformer", "experts"])
def test_draw(name: str, tmp_path: Path):
    target = tmp_path / "graph.svg"
    output_of("draw", EXAMPLES / f"{name}.ax", "-o", target)
    root = ElementTree.parse(target).getroot()
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    boxes = [element for element in root.iter() if element.tag.endswith("rect")]
    assert len(boxes) > 5
    assert any("[" in text for text in texts)


def test_draw_shows_shapes_on_edges(tmp_path: Path):
    source = tmp_path / "f.ax"
    source.write_text("def f (x: f32[n, 4]) (w: f32[4, 5]) = relu (x @ w)")
    output_of("draw", source)
    root = ElementTree.parse(source.with_suffix(".svg")).getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert sorted(text or "" for text in texts) == sorted(
        ["x", "w", "@", "relu", "result", "f32[n, 4]", "f32[4, 5]", "f32[n, 5]", "f32[n, 5]"]
    )


def test_repl():
    lines = "def f x = x @ ones{[3, 4]}\nf (ones{[2, 3]})\n:type f\n1 +\n\n1 + true\n:show\n:quit\n"
    text = output_of("repl", typed=lines)
    assert "f : f32[..s, 3] -> f32[..s, 4]" in text
    assert "[[3. 3. 3. 3.]\n [3. 3. 3. 3.]]\n: f32[2, 4]" in text
    assert "error[ProgramSyntaxError]" in text
    assert "error[TypesDisagree]" in text


def test_format(tmp_path: Path):
    path = tmp_path / "f.ax"
    path.write_text("def   f x=x+1.0  # one more\n")
    checked = runner.invoke(app, ["format", "--check", str(path)])
    assert checked.exit_code == 1
    output_of("format", path)
    assert path.read_text() == "# one more\ndef f x = x + 1.0\n"
    output_of("format", "--check", path)
    output_of("format", "--check", *EXAMPLES.glob("*.ax"))


def test_run_in_the_simulator():
    arguments = ("run", EXAMPLES / "mlp.ax", "mlp_broadcast", "3x4", "4", "4x2", "2", "5x3")
    plain = output_of(*arguments, "--fill", "ones")
    assert output_of(*arguments, "--fill", "ones", "--device", "simulator") == plain


def test_plan():
    shapes = ("3x4", "4", "4x2", "2", "5x3")
    halves = [f"f16:{shape}" for shape in shapes]
    text = output_of("plan", EXAMPLES / "mlp.ax", "mlp_broadcast", *halves, "--source")
    assert "2. product of 5 x 2" in text
    assert "acc0 = tl.dot(" in text


def test_labels_stay_inside_and_apart(tmp_path: Path):
    target = tmp_path / "graph.svg"
    output_of("draw", EXAMPLES / "transformer.ax", "block", "-o", target)
    root = ElementTree.parse(target).getroot()
    width = float(root.attrib["width"])
    ends: dict[float, list[tuple[float, float]]] = {}
    for element in root.iter():
        if element.tag.endswith("text") and "text-anchor" not in element.attrib:
            start = float(element.attrib["x"])
            end = start + 6.6 * len(element.text or "")  # the width of a letter of that size
            ends.setdefault(float(element.attrib["y"]), []).append((start, end))
    for spans in ends.values():
        spans.sort()
        assert spans[-1][1] < width
        assert all(a[1] < b[0] for a, b in pairwise(spans))
