"""Convolutions of random sizes, forward and both gradients, in the simulator against float64.

python scripts/random_convolutions.py --count 300                 all of the first 300
python scripts/random_convolutions.py --first 17 --count 1        one
python scripts/random_convolutions.py --level hopper --largest 9  with copies and barriers
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "workloads"), str(ROOT / "src")]

from convolutions import drawn, launched_at, transposed, verdict  # noqa: E402

from tawa.base.errors import TawaError  # noqa: E402


def main() -> int:
    """Run them; 1 if one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="how many convolutions")
    parser.add_argument("--largest", type=int, default=14, help="rows and columns at most")
    parser.add_argument("--level", default="tile", help="tile, hopper or ptx")
    chosen = parser.parse_args()
    warnings.simplefilter("error")
    counts: Counter[str] = Counter()
    begin = time.process_time()
    for seed in range(chosen.first, chosen.first + chosen.count):
        case = drawn(seed, chosen.largest)
        try:
            with launched_at(chosen.level):
                found = verdict(case)
                if found == "right" and seed % 3 == 0 and case.dtype in ("float16", "bfloat16"):
                    found = transposed(case)
        except (TawaError, Warning) as error:
            found = f"WRONG: {error}"
        counts[found.partition(":")[0]] += 1
        if found.startswith("WRONG"):
            print(case, found, sep="\n", flush=True)
    each = (time.process_time() - begin) / chosen.count
    print(f"{dict(counts)}, {each:.2f} s of processor time each")
    return int(counts["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
