"""What the timing model measures time with, beside instructions' costs and memory."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_ROWS = "16 rows of clocks.jsonl, gemm.jsonl and gemm-ablation.jsonl: predictions are on average"

_RECORDED = "kernels recorded by tawa.Timeline, timeline.jsonl"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Timing:
    """Clock cycles, where not said otherwise."""

    stretch: float = figure(1.07, "measured", "costs.jsonl, `softmax alone, 1 groups`: 10.3")
    """Ordinary code takes this times its pipes' bound: a softmax alone."""
    capacity: tuple[float, float, float, float] = figure(
        (1.0, 1.0, 0.97, 1.0),
        "measured",
        "costs.jsonl, `softmax alone, 3 groups`: 8.4 cycles an exponential of each scheduler",
    )
    """Part of a scheduler's issue slots, half-rate pipe and special-function unit, and of shared
    memory, that several warps together reach."""
    capacity_beside_tensor: tuple[float, float, float, float] = figure(
        (0.7, 0.48, 0.73, 1.0),
        "measured",
        "costs.jsonl, `softmax beside wgmma`: 15.2 to 16.1 cycles an exponential of one warp, 11.0 "
        "to 12.1 each for two; the half-rate pipe's by maxima in " + _RECORDED,
    )
    """The same as `capacity` while the tensor core works, which takes registers' ports."""
    work_favour: float = figure(
        0.1, "measured", "costs.jsonl, `softmax alone, 3 groups`: the last 24.2, others 25.2"
    )
    """How much more of a pipe a warp group's ordinary code gets than the one before it."""
    scalar: float = figure(
        4.45, "measured", "costs.jsonl, `imad, 1 warps a scheduler, 1 chains`: 4.447"
    )
    """Of an index operation, each of which waits for the one before."""
    jitter: float = figure(
        0.2, "fitted", f"{_ROWS} 5.8% off without it, 5.5% with it (attention 4.5% and 3.5%)"
    )
    """By how much work takes more or less time than its cost, at random."""
    grain: float = figure(
        12.0, "fitted", f"{_ROWS} 5.6% off with 0, 5.5% with 6 and 12, 5.4% with 24"
    )
    """Work shorter than this is not shared with others."""
    matrix_issue: float = figure(
        0.2, "measured", "costs.jsonl, `wgmma n128, 1 groups`: 13 an instruction, n256: 26"
    )
    """Of a matrix instruction's cycles, what its issue takes."""
    matrix_queue: float = figure(
        7.2, "measured", "costs.jsonl, `wgmma n64, 1 groups`: 16 issued after 328, done after 567"
    )
    """Matrix instructions of a warp group that need not have run when their issue is over."""
    matrix_favour: float = figure(
        0.2, "measured", "benchmarks/costs.py, two groups with 32 each, done after 3767 and 4148"
    )
    """How much more of the tensor core a warp group gets than the one before it."""
    warp_matrix: float = figure(
        6.6, "published", "arXiv 2402.13499: mma.sync of 16 bits reaches 62% of wgmma's rate"
    )
    """Of a scheduler for a matrix instruction of one warp, 16 x 8 x 16."""
    warp_matrix_latency: float = figure(33.0, "published", "arXiv 2402.13499, mma.sync m16n8k16")
    """From the issue of such an instruction to the next one that adds to its result."""
    fetch_latency: float = figure(
        28.3, "measured", "costs.jsonl, `shared memory of a group`: load to load 28.281"
    )
    """From the issue of a load from shared memory to its value."""
    element_fetch: float = figure(4.0, "counted", "machine code of products of warps")
    """Instructions that fetch one element of an operand by itself."""
    copy_instructions: float = figure(
        4.0, "counted", "machine code: a place in shared memory, a mask's predicate, the copy"
    )
    """Instructions of an asynchronous copy through a pointer."""
    copy_issue: float = figure(44.75, "measured", "costs.jsonl, `issue of copies`: a copy 44.75")
    """Of the issuing thread, for a bulk copy."""
    store_latency: float = figure(
        250.0, "fitted", "gemm.jsonl, the product of K = 256 that stages stores in one buffer"
    )
    """From the issue of a bulk store to its tile having been read."""
    store_issue: float = figure(
        48.25, "measured", _RECORDED + ": 93 with one store in it, less the issue of a copy"
    )
    """Of the issuing thread, for the end of a group of bulk stores."""
    store_wait: float = figure(50.0, "measured", _RECORDED)
    """Of a wait for stores that have read their tiles."""
    cold_us: float = figure(
        0.7, "measured", _RECORDED + ": first waits of attention, less what memory moves by then"
    )
    """Microseconds from a kernel's first bulk load to its arrival, beyond the table's times:
    descriptors and addresses are read."""
    cta_us: float = figure(0.18, "measured", "costs.jsonl, `empty kernel`: each further CTA 0.179")
    """Microseconds from a CTA's end to the first instruction of the next on its multiprocessor."""
    empty_us: float = figure(3.8, "measured", "costs.jsonl, `empty kernel`: one CTA 3.79")
    """Microseconds between events around a kernel that does nothing."""
