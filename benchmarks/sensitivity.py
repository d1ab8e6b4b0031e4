"""How much the timing model's own terms matter: predictions with half and with twice of each.

    python benchmarks/sensitivity.py            # needs no GPU

A term that was fitted, and not measured, should not decide what is predicted. For each of them the
table shows the largest change of a predicted time among a few kernels, and in which kernel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("src", "tests/workloads", "examples")]

from catalogue import ON_DEVICE  # noqa: E402
from simulation import recorded  # noqa: E402

from tawa.driver.prediction.launches import predict  # noqa: E402
from tawa.machine.chips import H100, Chip  # noqa: E402
from tawa.machine.timing import Timing  # noqa: E402

KERNELS = (
    "library-4096-8192-256", "gemm-long-k", "persistent_gemm", "gemm_gelu-persistent",
    "attention-large-causal", "softmax-f32-781-4", "layernorm", "pointers-small",
)  # fmt: skip
"""Products that are bound by memory and by the tensor core, attention, and rows."""

FACTORS = 0.5, 2.0


def fitted() -> Iterator[str]:
    """The terms of the timing model that were fitted with others."""
    for item in fields(Timing):
        if item.metadata["source"].kind == "fitted":
            yield item.name


def variants(name: str) -> Iterator[Chip]:
    """The chip with half, and with twice, of a term."""
    for factor in FACTORS:
        timing = replace(H100.timing, **{name: getattr(H100.timing, name) * factor})
        yield replace(H100, timing=timing)


def main() -> None:
    """Predict every kernel with every variant, and print what each term changes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", nargs="*", default=KERNELS)
    changes: dict[str, list[tuple[float, str]]] = {name: [] for name in fitted()}
    for kernel in parser.parse_args().kernels:
        launch, _ = recorded(ON_DEVICE[kernel])
        compiled = launch.compile()
        values = launch.values(compiled)

        def microseconds(chip: Chip) -> float:
            found = predict(compiled, launch.grid, values, None, chip)  # noqa: B023
            return 1e6 * found.kernel_seconds

        plain = microseconds(H100)
        print(f"{kernel:28} {plain:9.2f} us", flush=True)
        for name, found in changes.items():
            found.extend((microseconds(chip) / plain - 1, kernel) for chip in variants(name))
    for name, found in changes.items():
        most, kernel = max(found, key=lambda pair: abs(pair[0]))
        print(f"{name:16} {100 * most:+6.2f}% at most, {kernel}")


if __name__ == "__main__":
    main()
