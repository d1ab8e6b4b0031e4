"""Runs workloads on a GPU, one after the other, as the process that `worker.Worker` talks to.

Reads names of workloads, or of the suite's cases behind `SUITE`, a line each; writes a JSON object
a line: what went wrong, or "".
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import numpy as np
import torch
from catalogue import ON_DEVICE
from worker import SUITE
from workload import Array, Workload

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
REPEATS = 3


def tensor(array: Array, values: np.ndarray) -> torch.Tensor:
    """Values on the GPU; see `Array.every`."""
    dense = torch.from_numpy(values).to(DTYPES[array.element]).cuda()
    if array.every == 1:
        return dense
    wide = torch.zeros((dense.shape[0] * array.every, *dense.shape[1:]), dtype=dense.dtype)
    part = wide.cuda()[:: array.every]
    part.copy_(dense)
    return part


def bits(result: torch.Tensor) -> torch.Tensor:
    """The stored bytes, which compare equal for NaNs too."""
    return result.contiguous().view(torch.uint8)


def run(workload: Workload) -> None:
    """Launch several times on poisoned outputs: right, and the same every time."""
    arrays: dict[str, Any] = {
        name: tensor(array, workload.values[name]) for name, array in workload.inputs.items()
    }
    first: dict[str, torch.Tensor] = {}
    for _ in range(REPEATS):
        for name, array in workload.outputs.items():
            arrays[name] = tensor(array, array.poison)
        workload.launch(arrays)
        torch.cuda.synchronize()
        for name in workload.outputs:
            same = torch.equal(bits(first.setdefault(name, arrays[name])), bits(arrays[name]))
            assert same, f"`{name}` differs from launch to launch"
    workload.check({name: r.to(torch.float64).cpu().numpy() for name, r in first.items()})


def problem(request: str) -> str:
    """What is wrong with what was asked for; "" if nothing."""
    if request.startswith(SUITE):
        from suite_device import difference  # which needs this module's table of types

        return difference(request.removeprefix(SUITE))
    run(ON_DEVICE[request])
    return ""


def main() -> None:
    """Serve requests until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what kernels print is no answer
    torch.zeros(1).cuda()
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = problem(line.strip())
        except Exception:
            answer = traceback.format_exc()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
