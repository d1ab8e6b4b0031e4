"""Evidence of four models of diversification on trees of birds, beside published estimates.

    python benchmarks/cuppl_birds.py FOLDER [--particles 1e5] [--runs 4] [--trees alcedinidae,cc4]
        [--models crbd,clads0,clads2,lsbds]

`FOLDER` is a checkout of github.com/phyppl/probabilistic-programming, whose `data/birds-results`
has the logarithms of 500 estimates of each evidence by Birch (Ronquist and others 2021; those of
`crbd` by a closed form). The programs say what the models of that repository say: rates change at
speciations (`clads0`, `clads2` with extinction) or at any time (`lsbds`), and both lineages of the
root survive. Both sides' estimates are averaged as probabilities. Rows go to
`results/cuppl-birds.jsonl`.
"""

from __future__ import annotations

import argparse
import bz2
import json
import math
import time
import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cuppl_cases import crbd
from rows import commit

from cuppl import processor
from tawa import cuppl

RESULTS = Path(__file__).parent / "results" / "cuppl-birds.jsonl"
TREES = "alcedinidae,caprimulgidae,charadrii,cc4"
PUBLISHED = {"crbd": "crbda", "clads0": "clads0", "clads2": "clads2", "lsbds": "lsbds"}
HEAD = """
data Tree = Leaf(float) | Node(float, Tree, Tree)  # ages count back from the leaves
input tree : Tree
input rho : float
def leaves t = match t with | Leaf _ -> 1 | Node (_, l, r) -> leaves l + leaves r end
def shapes () = let n = float (leaves tree) in factor ((n - 1.0) * log 2.0 - lgamma (n + 1.0))
"""
"""The number of labelled histories is the same in all models."""
BODY = """
def walk t start rates =
  match t with
  | Leaf age ->
    let (_, w) = branch start age rates 0.0 in
    factor (w + log rho)
  | Node (age, l, r) ->
    let (own, w) = branch start age rates 0.0 in
    factor (if w == log 0.0 then w else w + log (speciation own));  # rates may be infinite
    walk l age own;
    walk r age own
  end

## How often both lineages of the root have to be drawn until both survive.
def tries age rates n =
  if !(undetected age rates) && !(undetected age rates) then n else tries age rates (n + 1)

def main () =
  shapes ();
  let rates = prior () in
  match tree with
  | Leaf _ -> ()
  | Node (age, l, r) ->
    walk l age rates;
    walk r age rates;
    factor (log (float (tries age rates 1)))
  end
"""
CRBD = """
def prior () = let lambda = sample (gamma 1 1) in (lambda, lambda * sample (uniform 0 1))
def speciation (lambda, mu) = lambda

def undetected start (lambda, mu) =
  let time = start - sample (exponential (lambda + mu)) in
  if time < 0.0 then !(flip rho)
  else if flip (mu / (lambda + mu)) then true
  else undetected time (lambda, mu) && undetected time (lambda, mu)

def branch start stop (lambda, mu) w =
  let time = start - sample (exponential lambda) in
  if time < stop then ((lambda, mu), w - mu * (start - stop))
  else if undetected time (lambda, mu)
  then branch time stop (lambda, mu) (w + log 2.0 - mu * (start - time))
  else ((lambda, mu), log 0.0)
"""
CLADS = """
def prior () =
  let lambda = sample (gamma 1 1) in
  let epsilon = EPSILON in
  let variance = sample (inverse_gamma 1 0.2) in
  let alpha = sample (normal 0 (sqrt variance)) in
  (lambda, epsilon, alpha, sqrt variance, 1.0)
def speciation (lambda, epsilon, alpha, sd, now) = lambda * now
def changed (lambda, epsilon, alpha, sd, now) =
  (lambda, epsilon, alpha, sd, now * exp (sample (normal alpha sd)))
def sane (lambda, epsilon, alpha, sd, now) = now >= 1e-5 && now <= 1e5
def ratio (lambda, epsilon, alpha, sd, now) = epsilon

def undetected start rates =
  let own = changed rates in
  if !(sane own) then false
  else
    let time = start - sample (exponential (speciation own * (1.0 + ratio own))) in
    if time < 0.0 then !(flip rho)
    else if flip (1.0 / (1.0 + ratio own)) then undetected time own && undetected time own
    else true

def branch start stop rates w =
  let own = changed rates in
  if !(sane own) then (own, log 0.0)
  else
    let rate = speciation own in
    let time = start - sample (exponential rate) in
    if time < stop then (own, w - rate * ratio own * (start - stop))
    else if undetected time own
    then branch time stop own (w + log 2.0 - rate * ratio own * (start - time))
    else (own, log 0.0)
"""
LSBDS = """
input eta_scale : float
def rates_of eta = let l = sample (gamma 1 1) in (l, sample (uniform 0 1), eta)
def prior () = rates_of (sample (gamma 1 eta_scale))
def speciation (lambda, epsilon, eta) = lambda

def undetected start (lambda, epsilon, eta) =
  let shift = start - sample (exponential eta) in
  let death = start - sample (exponential (lambda * epsilon)) in
  let stop = max 0.0 (max shift death) in
  let here = if death >= shift && death >= 0.0 then true
    else if shift < 0.0 then !(flip rho)
    else undetected shift (rates_of eta) in
  here && none start stop (sample (poisson (lambda * (start - stop)))) (lambda, epsilon, eta)

## Whether none of so many lineages, born between two times, is detected.
def none start stop n rates =
  if n == 0 then true
  else undetected (sample (uniform stop start)) rates && none start stop (n - 1) rates

def branch start stop (lambda, epsilon, eta) w =
  let shift = start - sample (exponential eta) in
  let end' = max stop shift in
  let n = sample (poisson (lambda * (start - end'))) in
  let now = w + float n * log 2.0 - lambda * epsilon * (start - end') in
  if !(none start end' n (lambda, epsilon, eta)) then ((lambda, epsilon, eta), log 0.0)
  else if shift < stop then ((lambda, epsilon, eta), now)
  else branch end' stop (rates_of eta) now
"""
PROGRAMS = {
    "crbd": HEAD + CRBD + BODY,
    "clads0": HEAD + CLADS.replace("EPSILON", "0.0") + BODY,
    "clads2": HEAD + CLADS.replace("EPSILON", "sample (uniform 0 1)") + BODY,
    "lsbds": HEAD + LSBDS + BODY,
}


def averaged(logarithms: Any) -> tuple[float, float]:
    """The logarithm of the mean, and its standard error."""
    values = np.asarray(logarithms, float)
    relative = np.exp(values - values.max())
    error = float(relative.std(ddof=1) / math.sqrt(len(values)) / relative.mean())
    return float(values.max() + math.log(relative.mean())), error


def measured(folder: Path, tree: str, model: str, given: argparse.Namespace) -> dict[str, Any]:
    """Ours and the published estimate."""
    facts = json.loads((folder / "birch" / "input" / f"{tree}.json").read_text())
    data = {"tree": crbd.read_tree(folder / "birch" / facts["tree"]), "rho": facts["\u03c1"]}
    data |= {"eta_scale": facts["\u03b7_\u03b8"]} if model == "lsbds" else {}
    program = cuppl.model(PROGRAMS[model])
    runs, seconds = list[float](), list[float]()
    for seed in range(given.runs):
        begin = time.process_time()
        posterior = program.smc(int(given.particles), data=data, seed=seed, ess_threshold=0.7)
        seconds.append(round(time.process_time() - begin, 2))
        runs.append(round(posterior.log_evidence, 4))
    path = folder / "data" / "birds-results" / tree / PUBLISHED[model] / "logZ.csv.bz2"
    theirs = [float(line) for line in bz2.decompress(path.read_bytes()).split()]
    ours, published = averaged(runs), averaged(theirs)
    return {
        "log_evidence": ours, "published": published, "runs": runs, "seconds": seconds,
        "apart": round((ours[0] - published[0]) / math.hypot(ours[1], published[1]), 2),
    }  # fmt: skip


def main() -> None:
    """Run all models on all trees."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--particles", type=float, default=1e5)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--trees", default=TREES)
    parser.add_argument("--models", default=",".join(PROGRAMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    shared = {
        "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", "suite": "cuppl-birds",
        "device": processor(), "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }  # fmt: skip
    for tree in given.trees.split(","):
        for model in given.models.split(","):
            found = measured(given.folder, tree, model, given)
            case = {"tree": tree, "model": model, "particles": int(given.particles)}
            with RESULTS.open("a") as file:
                file.write(json.dumps({**shared, "case": case, "impl": "tawa", **found}) + "\n")
            ours, theirs = found["log_evidence"], found["published"]
            print(
                f"{tree:14} {model:8} {ours[0]:9.3f} +- {ours[1]:.3f}, published {theirs[0]:9.3f} "
                f"+- {theirs[1]:.3f}: {found['apart']:5.2f} errors apart; "
                f"{found['seconds'][0]:.1f} s a run",
                flush=True,
            )


if __name__ == "__main__":
    main()
