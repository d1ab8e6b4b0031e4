"""The constant-rate birth-death model on the tree of the kingfishers.

The exact answers come from quadrature over the closed-form likelihood: log evidence -307.27391,
E[lambda] 0.1448894, E[mu] 0.0270357.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tawa import cuppl

HERE = Path(__file__).parent
RHO = 0.5684210526315789


def read_tree(path: Path) -> Any:
    """A phyjson tree as a value of the model's datatype; ages count back from the leaves."""

    def convert(node: dict[str, Any]) -> tuple[Any, float]:
        if not node["children"]:
            return {"Leaf": [0.0]}, 0.0
        (left, one), (right, other) = (convert(child) for child in node["children"])
        age = max(
            one + node["children"][0]["branch_length"], other + node["children"][1]["branch_length"]
        )
        return {"Node": [age, left, right]}, age

    return convert(json.loads(path.read_text())["trees"][0]["root"])[0]


def branches(tree: Any) -> list[tuple[float, float, bool]]:
    """The branches of a tree, parents first: (age of the parent, own age, is a leaf)."""
    rows: list[tuple[float, float, bool]] = []

    def walk(node: Any, parent: float | None) -> None:
        ((name, fields),) = node.items()
        if parent is not None:
            rows.append((parent, fields[0], name == "Leaf"))
        for child in fields[1:]:
            walk(child, fields[0])

    walk(tree, None)
    return rows


if __name__ == "__main__":
    model = cuppl.load(HERE / "crbd.ppl")
    data = {"tree": read_tree(HERE / "data" / "alcedinidae.phyjson"), "rho": RHO}
    print(model.smc(100_000, data=data, ess_threshold=1.0, progress=True).summary())
