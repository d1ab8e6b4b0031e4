"""Random ONNX models: what Axon says of their shapes, against what executing them gives.

    python benchmarks/onnx_random.py --operators 5000 --graphs 500 --seed 1

A model is one operator, or a small graph of several. Its inputs' sizes are symbols, a random part
of them numbers; integer inputs (shapes, axes, repetitions) are constants, computed from a size, or
unknown. It is executed by onnxruntime and by onnx's reference, at several sizes with 0 and 1 among
them. An answer is wrong if each runtime that runs the model contradicts it; a refusal is wrong if
both run it. A model that onnxruntime calls ill-formed counts for nothing.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_global_max_pool import GlobalMaxPool as ReferenceGlobalMaxPool
from onnx.reference.ops.op_split import Split_18
from onnx_drafts import random_model, valuations

from tawa.axon.onnx.graph import ModelInference
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes.shapes import evaluate
from tawa.base.errors import TawaError

SLOW = 5.0
"""Seconds above which an inference is counted as slow."""

NOT_THERE = ("NOT_IMPLEMENTED", "is not a registered function/op", "under development")
"""What onnxruntime says of models that may be well-formed but that it can't run."""

CHUNK = 100
"""Models that one process tries."""

Shapes = dict[str, "tuple[int, ...]"]


class Split(Split_18):
    """The reference's operator, which takes what it gets if parts don't add up."""

    def _run(self, mat: np.ndarray, split: Any = None, axis: Any = None, **rest: Any) -> Any:
        if split is not None and sum(split.tolist()) != mat.shape[axis or 0]:
            raise ValueError("the parts are not the whole")
        return super()._run(mat, split, axis=axis, **rest)


class GlobalMaxPool(ReferenceGlobalMaxPool):
    """The reference's operator, which takes channels for places where there is one axis of them."""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class Runtimes:
    """onnxruntime and onnx's reference on one model."""

    def __init__(self, model: ModelProto) -> None:
        self.names = [entry.name for entry in model.graph.output]
        self.session = self.reference = None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        typed = ModelProto()
        typed.CopyFrom(model)
        try:
            self.session = onnxruntime.InferenceSession(typed.SerializeToString(), options)
        except Exception as error:  # it has its own ways to refuse
            if not any(phrase in str(error) for phrase in NOT_THERE):
                return  # an ill-formed model: the reference checks little
        with contextlib.suppress(Exception):
            self.reference = ReferenceEvaluator(model, new_ops=[Split, GlobalMaxPool])

    def run(self, feeds: dict[str, np.ndarray]) -> list[Shapes]:
        """The shapes that each runtime gives which runs the model."""
        found: list[Shapes] = []
        for runtime in (self.session, self.reference):
            if runtime is None:
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    with np.errstate(all="ignore"):
                        results = runtime.run(self.names, feeds)
            except Exception:  # it doesn't run at these sizes
                if runtime is self.session:
                    return []  # the reference checks less than the specification demands
                continue
            found.append({n: np.shape(v) for n, v in zip(self.names, results, strict=True)})
        return found


def stated(shapes: ModelShapes, name: str, sizes: dict[str, int]) -> tuple[int | None, ...] | None:
    """What Axon says of a value at some sizes."""
    dims = shapes.dims(name)
    names = {v: s for s, dim in shapes.symbols.items() for v in dim.variables()}
    if dims is None:
        return None
    return tuple(evaluate(dim, lambda v: sizes.get(names.get(v, ""))) for dim in dims)


def contradicts(said: tuple[int | None, ...] | None, real: tuple[int, ...]) -> bool:
    """Whether an answer isn't right."""
    if said is None:
        return False
    pairs = zip(said, real, strict=False)
    return len(said) != len(real) or any(a is not None and a != b for a, b in pairs)


@dataclass
class Tally:
    """What came out: counts, and a few of the models that went wrong."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter[str])
    examples: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, seed: int, operators: int, opset: int = 18) -> None:
        """Try one random model."""
        draft = random_model(seed, operators)
        model = draft.model(opset)
        start = time.perf_counter()
        try:
            shapes = ModelInference(model, strict=True).run()
            for entry in model.graph.output:
                shapes.text(entry.name)
            [str(requirement) for requirement in shapes.requirements()]
        except TawaError as error:
            shapes, refusal = None, str(error).split("\n")[0]
        except Exception:
            self.note("crash", seed, operators, model, traceback.format_exc()[-600:])
            return
        taken = time.perf_counter() - start
        self.slowest = max(self.slowest, taken)
        if taken > SLOW:
            self.note("slow", seed, operators, model, f"{taken:.1f} s")
        self.counts["models"] += 1
        runtimes = Runtimes(model)
        for sizes in valuations(draft):
            found = runtimes.run(draft.feeds(sizes))
            if not found:
                continue
            self.counts["runs"] += 1
            if shapes is None:
                self.counts["refused though it runs"] += 1
                if len(found) == 2 and found[0] == found[1]:
                    self.note("wrong", seed, operators, model, f"refused at {sizes}: {refusal}")
                    return
                continue
            if self.judge(shapes, found, sizes, (seed, operators, model)):
                return

    def judge(
        self, shapes: ModelShapes, found: list[Shapes], sizes: dict[str, int], of: tuple[Any, ...]
    ) -> bool:
        """Compare the answers at some sizes; whether one is wrong."""
        for name in found[0]:
            said = stated(shapes, name, sizes)
            reals = [result[name] for result in found]
            if all(contradicts(said, real) for real in reals):
                self.note("wrong", *of, f"{name} at {sizes}: {said}, really {reals}")
                return True
            full = said is not None and None not in said
            self.counts["right" if full else "partly known" if said else "unknown"] += 1
        return False

    def note(self, kind: str, seed: int, operators: int, model: ModelProto, what: str) -> None:
        """Count and keep a model that went wrong."""
        self.counts[kind] += 1
        text = onnx.printer.to_text(model.graph)
        self.examples.append(f"{kind}: seed {seed}, {operators} operators: {what}\n{text}\n")


def tally_of(seeds: range, attempt: Callable[[range], Tally]) -> Tally | None:
    """Try the models of some seeds in a process of their own; None if a runtime ends it."""
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(attempt, seeds).result()
        except BrokenProcessPool:
            return None


def _tally(seeds: range, sizes: tuple[int, ...]) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(seed, sizes[seed % len(sizes)])
    return tally


def campaign(first: int, count: int, attempt: Callable[[range], Tally]) -> Tally:
    """Try random models, some at a time: onnxruntime ends its process where it divides by 0."""
    total = Tally()
    waiting = [range(first + k, first + min(k + CHUNK, count)) for k in range(0, count, CHUNK)]
    while waiting:
        seeds = waiting.pop(0)
        found = tally_of(seeds, attempt)
        if found is not None:
            total.counts.update(found.counts)
            total.examples += found.examples
            total.slowest = max(total.slowest, found.slowest)
        elif len(seeds) > 1:
            middle = seeds.start + len(seeds) // 2
            waiting[:0] = [range(seeds.start, middle), range(middle, seeds.stop)]
        else:
            total.counts["ended the runtime"] += 1
    return total


def main() -> None:
    """Run the campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=2000, help="models of one operator")
    parser.add_argument("--graphs", type=int, default=200, help="models of 2 to 6 operators")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rare", action="store_true", help="rarer operators, too")
    parser.add_argument("--show", type=int, default=5, help="models that went wrong to print")
    arguments = parser.parse_args()
    if arguments.rare:
        import onnx_drafts_rare  # noqa: F401 (registers them)
    for title, count, sizes in (
        ("one operator", arguments.operators, (1,)),
        ("small graphs", arguments.graphs, (2, 3, 4, 5, 6)),
    ):
        tally = campaign(arguments.seed * 1_000_003, count, partial(_tally, sizes=sizes))
        counts = dict(sorted(tally.counts.items()))
        print(f"{title}: {counts}, slowest {tally.slowest:.2f} s", flush=True)
        for example in tally.examples[: arguments.show]:
            print(example)


if __name__ == "__main__":
    main()
