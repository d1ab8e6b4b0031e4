"""Axon's shape inference beside other tools: ONNX's node cases, its light models, long chains.

    python benchmarks/axon.py                      # all parts; rows to results/axon.jsonl
    python benchmarks/axon.py nodes --pattern conv # some node cases only (no rows)
    python benchmarks/axon.py --write docs/axon.md # rewrite the document's tables from the rows

Peers: onnx's own inference (strict, with data propagation), onnxruntime's symbolic_shape_infer,
and onnx-shape-inference. All get the same models, symbols and constants, and are scored alike.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx
import onnx_cases as oc
from onnx import ModelProto, helper, shape_inference

from tawa.axon.onnx.graph import ModelInference
from tawa.axon.sizes.shapes import evaluate
from tawa.axon.typing.language import axon

RESULTS = Path(__file__).parent / "results" / "axon.jsonl"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
PACKAGES = ("onnx", "onnxruntime", "onnx-shape-inference", "numpy")
PLACE = re.compile(r"(<!-- table: axon-(nodes|light|chain) -->\n).*?(<!-- end of table -->)", re.S)


# The tools.


def tawa(case: oc.Case) -> Callable[[dict[str, int]], oc.Inferred]:
    """This project's inference."""
    found = ModelInference(case.model).run(case.inputs, case.constants)
    variables = {v: name for name, dim in found.symbols.items() for v in dim.variables()}

    def at(sizes: dict[str, int]) -> oc.Inferred:
        def value(variable: Any) -> int | None:
            return sizes.get(variables.get(variable, ""))

        shapes: oc.Inferred = {}
        for entry in case.model.graph.output:
            dims = found.dims(entry.name)
            shapes[entry.name] = dims and tuple(evaluate(dim, value) for dim in dims)
            shapes[entry.name] = () if dims == () else shapes[entry.name]
        return shapes

    return at


def of_model(infer: Callable[[ModelProto], ModelProto]) -> oc.Tool:
    """A tool that writes shapes into a model."""

    def tool(case: oc.Case) -> Callable[[dict[str, int]], oc.Inferred]:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            model = infer(oc.symbolic_model(case))
        values = {e.name: e for e in (*model.graph.value_info, *model.graph.output)}
        return lambda sizes: {
            entry.name: declared(values.get(entry.name), sizes) for entry in case.model.graph.output
        }

    return tool


def declared(entry: Any, sizes: dict[str, int]) -> tuple[int | None, ...] | None:
    """The shape that a model declares for a value, symbols and expressions evaluated."""
    if entry is None or not entry.type.tensor_type.HasField("shape"):
        return None
    found: list[int | None] = []
    for dim in entry.type.tensor_type.shape.dim:
        if dim.HasField("dim_value"):
            found.append(dim.dim_value)
        else:
            found.append(expression(dim.dim_param, sizes) if dim.dim_param else None)
    return tuple(found)


def expression(text: str, sizes: dict[str, int]) -> int | None:
    """The value of a tool's expression, None if it has unknowns."""
    import sympy

    names: dict[str, Any] = dict(sizes) | {
        "floor": sympy.floor, "ceiling": sympy.ceiling, "Max": sympy.Max, "Min": sympy.Min,
        "max": max, "min": min,
    }  # fmt: skip
    try:
        value = eval(text, {"__builtins__": {}}, names)  # the tools print Python expressions
    except Exception:  # a name that isn't a symbol of the case
        return None
    return int(value) if value == int(value) else None


def onnx_own(model: ModelProto) -> ModelProto:
    """onnx.shape_inference."""
    return shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)


def onnxruntime(model: ModelProto) -> ModelProto:
    """onnxruntime.tools.symbolic_shape_infer."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    return SymbolicShapeInference.infer_shapes(model, auto_merge=True)


def onnx_shape_inference(model: ModelProto) -> ModelProto:
    """The package onnx-shape-inference."""
    import onnx_ir
    from onnx_shape_inference import infer_symbolic_shapes

    inner = infer_symbolic_shapes(onnx_ir.from_proto(model), warn_on_missing=False)
    return onnx_ir.to_proto(inner)


MODEL_TOOLS = {
    "onnx": onnx_own, "onnxruntime": onnxruntime, "onnx-shape-inference": onnx_shape_inference,
}  # fmt: skip
TOOLS: dict[str, oc.Tool] = {
    "tawa": tawa, **{name: of_model(tool) for name, tool in MODEL_TOOLS.items()},
}  # fmt: skip


# The parts.


def nodes(pattern: str, emit: Callable[..., None]) -> None:
    """Every node case, every tool."""
    cases = list(oc.cases(pattern))
    counts = {
        "cases": len(cases),
        "without_sizes": sum(not case.symbols for case in cases),
        "three_valuations": sum(len(case.valuations) == 3 for case in cases),
        "two_valuations": sum(len(case.valuations) == 2 for case in cases),
    }
    for name, tool in TOOLS.items():
        total = oc.Score()
        start = time.process_time()
        for case in cases:
            oc.score(case, tool, total)
        emit(
            {"part": "nodes", **counts}, name,
            right=total.right, partial=total.partial, wrong=total.wrong,
            unranked=total.unranked, outputs=total.outputs, exceptions=total.failed,
            seconds=round(time.process_time() - start, 2),
        )  # fmt: skip


def light(emit: Callable[..., None]) -> None:
    """The batch size of the light models: 1, where a Reshape says so."""
    for path in sorted(LIGHT.glob("*.onnx")):
        model = onnx.load(path)
        weights = {initializer.name for initializer in model.graph.initializer}
        entry = next(e for e in model.graph.input if e.name not in weights)
        start = time.process_time()
        found = ModelInference(model).run({entry.name: ["N", 3, 224, 224]})
        seconds = time.process_time() - start
        required = found.requirements()
        emit(
            {"part": "light", "model": path.stem, "nodes": len(model.graph.node)}, "tawa",
            batch=batch_text(found.dims(entry.name)), seconds=round(seconds, 4),
            requires=[str(requirement) for requirement in required],
        )  # fmt: skip
        element = entry.type.tensor_type.elem_type
        dims = ["N", 3, 224, 224]
        entry.CopyFrom(helper.make_tensor_value_info(entry.name, element, dims))
        for name, tool in MODEL_TOOLS.items():
            emit({"part": "light", "model": path.stem}, name, **peer_batch(tool, model, entry.name))


def batch_text(dims: Any) -> str:
    """The first size as a number, or N."""
    number = dims[0].constant
    return "N" if number is None else str(number)


def peer_batch(tool: Callable[[ModelProto], ModelProto], model: ModelProto, name: str) -> Any:
    """What a tool makes of the batch size of an input."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        start = time.process_time()
        try:
            inferred = tool(model)
        except Exception as error:  # reported in the row
            return {"error_text": f"{type(error).__name__}: {error}"[:200]}
        seconds = time.process_time() - start
    entry = next(e for e in inferred.graph.input if e.name == name)
    first = entry.type.tensor_type.shape.dim[0]
    return {"batch": first.dim_param or str(first.dim_value), "seconds": round(seconds, 4)}


def chain_text(length: int) -> str:
    """A function of `length` operators, each on the result of the one before."""
    lines = ["def f w b x0 ="]
    for i in range(length):
        operation = ("relu (x{} @ w)", "x{} + b", "softmax x{}", "x{} .+ x{}")[i % 4]
        lines.append(f"  let x{i + 1} = {operation.format(i, max(i - 1, 0))} in")
    return "\n".join([*lines, f"  x{length}"])


def chain(emit: Callable[..., None]) -> None:
    """Inference time of chains."""
    language = axon()
    for length in (100, 1000, 10_000):
        module = language.parse(chain_text(length), f"chain{length}.ax")
        times: list[float] = []
        for _ in range(3):  # the least is what it takes; others on the machine add to it
            start = time.process_time()
            language.check_module(module)
            times.append(time.process_time() - start)
        seconds = min(times)
        emit(
            {"part": "chain", "operators": length}, "tawa", seconds=round(seconds, 4),
            microseconds_per_operator=round(seconds / length * 1e6, 1),
        )  # fmt: skip


# Rows and tables.


def row_writer(write: bool) -> Callable[..., None]:
    """Prints each row, and appends it to the results."""
    shared = {
        "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}",
        "suite": "axon",
        "device": processor(),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }

    def emit(case: dict[str, Any], impl: str, **more: Any) -> None:
        print(f"{json.dumps(case)} {impl}: {json.dumps(more)}", flush=True)
        if write:
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a") as file:
                file.write(json.dumps({**shared, "case": case, "impl": impl, **more}) + "\n")

    return emit


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "CPU")
    return f"{name} ({os.cpu_count()} cores)"


def latest(part: str) -> list[dict[str, Any]]:
    """The rows of the latest run that has the part."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    rows = [row for row in rows if row["case"]["part"] == part]
    return [row for row in rows if row["run"] == rows[-1]["run"]]


def nodes_table() -> str:
    """One line for each tool."""
    rows = latest("nodes")
    case = rows[0]["case"]
    valued = case["three_valuations"] + case["two_valuations"]
    rest = case["cases"] - case["without_sizes"] - valued
    lines = [
        "| cases | without a size to vary | at three valuations | at two | at one |",
        "|---|---|---|---|---|",
        f"| {case['cases']} | {case['without_sizes']} | {case['three_valuations']} | "
        f"{case['two_valuations']} | {rest} |",
        "",
        "| tool | fully right | partly known | wrong | no rank | cases raised | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        share = f"{row['right']} of {row['outputs']} ({100 * row['right'] / row['outputs']:.1f}%)"
        lines.append(
            f"| {row['impl']} | {share} | {row['partial']} | {row['wrong']} | {row['unranked']} | "
            f"{row['exceptions']} | {row['seconds']} |"
        )
    return "\n".join(lines)


def light_table() -> str:
    """One line for each model."""
    rows = latest("light")
    tools = list(dict.fromkeys(row["impl"] for row in rows))
    lines = [
        f"| model | nodes | {' | '.join(tools)} | what Axon says | Axon's time |",
        "|---|---|" + "---|" * len(tools) + "---|---|",
    ]
    for mine in (row for row in rows if row["impl"] == "tawa"):
        same = [row for row in rows if row["case"]["model"] == mine["case"]["model"]]
        batches = [row.get("batch", "raised") for row in same]
        said = "; ".join(mine["requires"]) or "N is free"
        lines.append(
            f"| {mine['case']['model'].removeprefix('light_')} | {mine['case']['nodes']} | "
            f"{' | '.join(batches)} | {said} | {1000 * mine['seconds']:.0f} ms |"
        )
    return "\n".join(lines)


def chain_table() -> str:
    """One line for each length."""
    lines = ["| operators | seconds | microseconds an operator |", "|---|---|---|"]
    lines += [
        f"| {row['case']['operators']} | {row['seconds']} | {row['microseconds_per_operator']} |"
        for row in latest("chain")
    ]
    return "\n".join(lines)


TABLES = {"nodes": nodes_table, "light": light_table, "chain": chain_table}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*TABLES, []], default=[])
    parser.add_argument("--pattern", default="", help="only node cases with this in their name")
    parser.add_argument("--write", type=Path, nargs="*", default=[], help="documents to rewrite")
    options = parser.parse_args()
    sys.setrecursionlimit(100_000)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for path in options.write:
        text = PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]]()}\n{m[3]}", path.read_text())
        path.write_text(text)
    if options.write:
        return
    emit = row_writer(not options.pattern)
    parts = options.parts or list(TABLES)
    if "chain" in parts:
        chain(emit)
    if "light" in parts:
        light(emit)
    if "nodes" in parts:
        nodes(options.pattern, emit)
    for part in parts if not options.pattern else []:
        print(f"\n{TABLES[part]()}")


if __name__ == "__main__":
    main()
