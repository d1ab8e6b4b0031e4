"""NUTS from its default settings beside the reference draws of posteriordb.

    python benchmarks/cuppl_posteriordb.py DATABASE [--seeds 5] [--only garch11,nes]

`DATABASE` is the folder `posterior_database` of github.com/stan-dev/posteriordb. Each mean and each
standard deviation is compared with the reference draws' in Monte Carlo standard errors, those of
both sides together (ArviZ's). A row for each posterior goes to `results/cuppl-posteriordb.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
import warnings
import zipfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import arviz
import numpy as np
from cuppl_posteriordb_models import MODELS
from rows import commit

from cuppl import processor
from tawa import cuppl

RESULTS = Path(__file__).parent / "results" / "cuppl-posteriordb.jsonl"
Draws = dict[str, np.ndarray[Any, Any]]


def packed(path: Path) -> Any:
    """The content of a packed JSON file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def posteriors(database: Path) -> dict[str, tuple[str, dict[str, Any], Draws]]:
    """By name: the model, the data and the reference draws, of all that have them and a program."""
    found: dict[str, tuple[str, dict[str, Any], Draws]] = {}
    for path in sorted((database / "posteriors").glob("*.json")):
        facts = json.loads(path.read_text())
        reference = database / "reference_posteriors" / "draws" / "draws"
        draws = reference / f"{facts.get('reference_posterior_name')}.json.zip"
        if facts["model_name"] in MODELS and draws.is_file():
            data = packed(database / "data" / "data" / f"{facts['data_name']}.json.zip")
            chains = packed(draws)
            values = {name: np.array([c[name] for c in chains]) for name in chains[0]}
            found[facts["name"]] = (facts["model_name"], data, values)
    return found


def moments(draws: np.ndarray[Any, Any]) -> tuple[float, float, float, float]:
    """Mean, standard deviation and the errors of both, of draws by chain."""
    mean = float(arviz.mcse(draws, method="mean"))
    return (
        float(draws.mean()),
        float(draws.std(ddof=1)),
        mean,
        float(arviz.mcse(draws, method="sd")),
    )


def ours(posterior: Any, quantities: tuple[str, ...], chains: int) -> Draws:
    """Our draws by chain, under the names of the database."""
    parts: list[np.ndarray[Any, Any]] = []
    for name in posterior.names:
        values = np.asarray(posterior[name], float)
        parts.extend(values.reshape(len(values), -1).T)
    shaped = (part.reshape(chains, -1) for part in parts)
    return dict(zip(quantities, shaped, strict=True))


def compared(mine: Draws, reference: Draws) -> dict[str, float]:
    """How many standard errors each mean and each standard deviation is away."""
    away: dict[str, float] = {}
    for name, draws in mine.items():
        if np.ptp(reference[name]) == 0.0:
            continue
        here, there = moments(draws), moments(reference[name])
        for what, k in (("mean", 0), ("sd", 1)):
            error = float(np.hypot(here[k + 2], there[k + 2]))
            away[f"{what} of {name}"] = round((here[k] - there[k]) / error, 3)
    return away


def measured(model: str, data: dict[str, Any], reference: Draws, seeds: int) -> dict[str, Any]:
    """What to write about a posterior."""
    program = cuppl.model(MODELS[model].program)
    given = MODELS[model].prepared(data)
    away: list[dict[str, float]] = []
    seconds, sizes, divergent = list[float](), list[float](), list[float]()
    for seed in range(seeds):
        begin = time.process_time()
        posterior = program.nuts(data=given, seed=seed, threads=1)
        seconds.append(round(time.process_time() - begin, 3))
        mine = ours(posterior, MODELS[model].quantities, 4)
        sizes.append(round(min(float(arviz.ess(d)) for d in mine.values() if np.ptp(d)), 1))
        divergent.append(posterior.diagnostics["divergent"])
        away.append(compared(mine, reference))
    return {"seconds": seconds, "ess": sizes, "divergent": divergent, "away": away}


def main() -> None:
    """Run all posteriors in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", help="models, with commas between them")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    shared = {
        "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}",
        "suite": "cuppl-posteriordb", "device": processor(), "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "versions": {p: metadata.version(p) for p in ("llvmlite", "numpy", "arviz")},
    }  # fmt: skip
    wanted = given.only.split(",") if given.only else None
    for name, (model, data, reference) in posteriors(given.database).items():
        if wanted is not None and model not in wanted:
            continue
        case = {"posterior": name, "draws": 4000}
        row: dict[str, Any] = {**shared, "case": case, "impl": "tawa"}
        try:
            row |= measured(model, data, reference, given.seeds)
            sizes = sorted((abs(v), what) for one in row["away"] for what, v in one.items())
            shown = f"{len(sizes)} figures, beyond 3: {sum(v > 3 for v, _ in sizes)}, "
            shown += f"most {sizes[-1][0]:.2f} ({sizes[-1][1]}); {row['seconds'][0]:.1f} s, "
            shown += f"ESS {min(row['ess']):.0f}, divergent {sum(row['divergent']):.0f}"
        except Exception as error:
            row["error_text"] = shown = str(error).splitlines()[0]
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name:40} {shown}", flush=True)


if __name__ == "__main__":
    main()
