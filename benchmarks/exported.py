"""Models that PyTorch's exporters make: what Axon says of every tensor, against executing them.

    python benchmarks/exported.py --folder /tmp/exported            # all models, both exporters
    python benchmarks/exported.py --folder /tmp/exported hf-bert    # some of them
    python benchmarks/exported.py --folder /tmp/exported --keep     # infer again, export nothing

Each model is exported with symbolic sizes by both exporters. What they note of inner shapes is
taken away. onnxruntime runs the model with all tensors as outputs, at two or three combinations of
sizes; a tensor is right if it is at each of them. onnxruntime's symbolic inference is scored alike.
Needs torchvision, timm, transformers, torchaudio and onnxscript.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

EXPORTERS = ("legacy", "dynamo")
Answer = Callable[[dict[str, int]], "tuple[int | None, ...] | None"]


def export(name: str, exporter: str, folder: Path) -> None:
    """Export a model, and keep its inputs at each combination of sizes."""
    import torch
    from exported_cases import CASES, Flat

    torch.manual_seed(0)
    case = CASES[name]
    model = Flat(case)
    model = model.inner if case.scripted else model
    samples = [[e.sample(sizes) for e in case.entries] for sizes in case.valuations]
    path = folder / f"{name}-{exporter}.onnx"
    names = [entry.name for entry in case.entries]
    axes = [{k: d for k, d in enumerate(e.dims) if isinstance(d, str)} for e in case.entries]
    common: dict[str, Any] = {"input_names": names}
    if exporter == "legacy":
        torch.onnx.export(
            model, tuple(samples[0]), str(path), dynamo=False, opset_version=17,
            dynamic_axes=dict(zip(names, axes, strict=True)), **common,
        )  # fmt: skip
    else:
        free = [dict.fromkeys(of, torch.export.Dim.DYNAMIC) for of in axes]
        program = torch.onnx.export(
            model, tuple(samples[0]), dynamo=True, verbose=False,
            dynamic_shapes=free if case.scripted else (tuple(free),), **common,
        )  # fmt: skip
        program.save(str(path))
    feeds = {
        f"{k}:{entry.name}": value.numpy()
        for k, sample in enumerate(samples)
        for entry, value in zip(case.entries, sample, strict=True)
    }
    np.savez(path.with_suffix(".npz"), **feeds)


def executed(model: ModelProto, path: Path) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """The symbols' sizes and all tensors' shapes, for each sample that runs."""
    import onnxruntime

    outputs = {o.name for o in model.graph.output}
    whole = ModelProto()
    whole.CopyFrom(model)
    for node in model.graph.node:
        for output in node.output:
            if output and output not in outputs:
                whole.graph.output.append(onnx.ValueInfoProto(name=output))
    names = [o.name for o in whole.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options)
    found: list[tuple[dict[str, int], dict[str, Any]]] = []
    kept = np.load(path.with_suffix(".npz"))
    taken = {e.name for e in session.get_inputs()}
    for k in range(sum(key.endswith(kept.files[0][1:]) for key in kept.files)):
        feeds = {key.split(":", 1)[1]: kept[key] for key in kept.files if key.startswith(f"{k}:")}
        feeds = {name: value for name, value in feeds.items() if name in taken}
        try:
            results = session.run(names, feeds)
        except Exception as error:  # the exporter fixed a size
            print(f"   not at sample {k}: {str(error)[:150]!r}", flush=True)
            continue
        sizes = {
            d.dim_param: value.shape[axis]
            for entry in model.graph.input if (value := feeds.get(entry.name)) is not None
            for axis, d in enumerate(entry.type.tensor_type.shape.dim) if d.dim_param
        }  # fmt: skip
        shapes = {
            n: np.shape(v)
            for n, v in zip(names, results, strict=True)
            if isinstance(v, np.ndarray | np.generic)
        }
        found.append((sizes, shapes))
    return found


def tawa(model: ModelProto) -> Callable[[str], Answer]:
    """This project's inference."""
    from onnx_random import stated

    from tawa import axon

    shapes = axon.from_onnx(model).shapes()
    for name in shapes.values:
        shapes.text(name)
    return lambda name: lambda sizes: stated(shapes, name, sizes)


def onnxruntime_own(model: ModelProto) -> Callable[[str], Answer]:
    """onnxruntime's symbolic inference."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    from axon import declared

    inferred = SymbolicShapeInference.infer_shapes(model, auto_merge=True)
    entries = {e.name: e for e in (*inferred.graph.value_info, *inferred.graph.output)}
    return lambda name: lambda sizes: declared(entries.get(name), sizes)


def score(answers: Callable[[str], Answer], runs: list[Any]) -> tuple[dict[str, int], list[str]]:
    """Counts of right, partly known and wrong tensors, and the names of those not right."""
    counts = {"right": 0, "partial": 0, "unknown": 0, "wrong": 0}
    names: list[str] = []
    for name in runs[0][1]:
        answer = answers(name)
        worst = "right"
        for sizes, shapes in runs:
            said, real = answer(sizes), shapes[name]
            if said is None:
                verdict = "unknown"
            elif len(said) != len(real) or any(
                a is not None and a != b for a, b in zip(said, real, strict=True)
            ):
                verdict = "wrong"
            else:
                verdict = "partial" if None in said else "right"
            worst = max(worst, verdict, key=list(counts).index)
        counts[worst] += 1
        if worst != "right":
            names.append(f"{worst} {name} {said} {real}")
    return counts, names


def judge(path: Path, peer: bool) -> dict[str, Any]:
    """What the tools say of an exported model, and what is so."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("shape")
    runs = executed(model, path)
    if not runs:
        return {"model": path.stem, "error": "it doesn't run"}
    row: dict[str, Any] = {"model": path.stem, "nodes": len(model.graph.node), "runs": len(runs)}
    start = time.process_time()
    try:
        row["tawa"], row["not right"] = score(tawa(model), runs)
    except Exception:
        row["tawa_error"] = traceback.format_exc()[-1500:]
    row["seconds"] = round(time.process_time() - start, 2)
    if peer:
        try:
            row["onnxruntime"], _ = score(onnxruntime_own(model), runs)
        except Exception as error:
            row["onnxruntime_error"] = f"{type(error).__name__}: {error}"[:200]
    return row


def main() -> None:
    """Export models and judge them, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="judge what is there, export nothing")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if arguments.inside:
        exporter, name = arguments.inside.split(":")
        path = folder / f"{name}-{exporter}.onnx"
        if not arguments.keep:
            export(name, exporter, folder)
        print("ROW " + json.dumps(judge(path, peer=True)))
        return
    from exported_cases import CASES

    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.models or CASES:
        for exporter in [arguments.exporter] if arguments.exporter else EXPORTERS:
            flags = ["--keep"] if arguments.keep else []
            if arguments.keep and not (folder / f"{name}-{exporter}.npz").exists():
                continue
            command = [sys.executable, __file__, "--folder", str(folder), *flags]
            command += ["--inside", f"{exporter}:{name}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=240)
                lines = done.stdout.splitlines()
                row = next((line for line in lines if line.startswith("ROW ")), None)
                said = (
                    row[4:]
                    if row
                    else json.dumps({"model": f"{name}-{exporter}", "error": done.stderr[-400:]})
                )
            except subprocess.TimeoutExpired:
                said = json.dumps({"model": f"{name}-{exporter}", "error": "timeout"})
            print(said, flush=True)


if __name__ == "__main__":
    main()
