"""Models with finitely many values, each with its posterior worked out independently in Python.

They cover the ground of WebPPL's public stochastic tests and examples, in our own words: choices,
conditioning, recursion, memoisation, nested structure, grammars, hidden Markov models, reasoning
about other agents, small networks.
"""

from __future__ import annotations

import math

from conformance_tables import (
    Case,
    binomial,
    coupon,
    crp_tables,
    flips,
    geometric,
    hmm_posterior,
    implicature,
    ising,
    lda_topic,
    monty_hall,
    noisy_or,
    normalised,
    pcfg_lengths,
    semi_markov,
    tug_of_war,
    walk,
)

FLIP = "let a = flip 0.5 in let b = flip 0.5 in let c = flip 0.5 in "

CASES = [
    Case("flip", "def main () = flip 0.3", {True: 0.3, False: 0.7}),
    Case(
        "two coins",
        "def main () = (flip 0.3, flip 0.6)",
        flips([0.3, 0.6], lambda a, b: (a, b), lambda a, b: 1.0),
    ),
    Case(
        "either",
        "def main () = let a = flip 0.3 in let b = flip 0.6 in condition (a || b); a",
        flips([0.3, 0.6], lambda a, b: a, lambda a, b: float(a or b)),
    ),
    Case(
        "at least two",
        f"def main () = {FLIP} condition (count (fn x -> x) [a, b, c] >= 2); a",
        flips([0.5] * 3, lambda a, b, c: a, lambda a, b, c: float(a + b + c >= 2)),
    ),
    Case(
        "factors",
        "def main () = let a = flip 0.5 in factor (if a then 1.0 else 2.0); a",
        normalised([(True, math.e), (False, math.e**2)]),
    ),
    Case(
        "factors in branches",
        "def main () = if flip 0.4 then (factor 0.5; 1) else (factor (-0.5); 2)",
        normalised([(1, 0.4 * math.exp(0.5)), (2, 0.6 * math.exp(-0.5))]),
    ),
    Case(
        "varying number of factors",
        "def main () = let a = flip 0.5 in (if a then (factor 1.0; factor 1.0) else factor 1.0); a",
        normalised([(True, math.e**2), (False, math.e)]),
    ),
    Case("factor before choice", "def main () = factor 3.0; flip 0.25", {True: 0.25, False: 0.75}),
    Case(
        "zero probability",
        "def main () = sample (categorical [0.0, 1.0, 0.0, 3.0])",
        {1: 0.25, 3: 0.75},
    ),
    Case("binomial", "def main () = sample (binomial 5 0.3)", dict(enumerate(binomial(5, 0.3)))),
    Case(
        "sum of coins",
        "def main () = count (fn x -> x) (repeat 5 (fn _ -> flip 0.3))",
        dict(enumerate(binomial(5, 0.3))),
    ),
    Case(
        "incremental binomial",
        """def go n = if n == 0 then 0
  else let x = flip 0.5 in factor (if x then 0.0 else -1.0); (if x then 1 else 0) + go (n - 1)
def main () = go 4""",
        dict(enumerate(binomial(4, 1 / (1 + math.exp(-1))))),
    ),
    Case(
        "geometric",
        "def geo p = if flip p then 0 else 1 + geo p\ndef main () = geo 0.7",
        geometric(0.7),
        tolerance=1e-14,
    ),
    Case(
        "geometric in a tail call",
        "def geo n = if flip 0.6 then n else geo (n + 1)\ndef main () = geo 0",
        geometric(0.6),
        tolerance=1e-14,
    ),
    Case(
        "constrained geometric",
        "def geo () = if flip 0.5 then 0 else 1 + geo ()\n"
        "def main () = let n = geo () in condition (n > 1); n",
        normalised((k, 0.5**k) for k in range(2, 60)),
        tolerance=1e-14,
    ),
    Case(
        "uniform integers",
        "def main () = let a = sample (uniform_int 1 6) in "
        "let b = sample (uniform_int 1 6) in condition (a + b == 9); a",
        normalised((a, 1.0) for a in (3, 4, 5, 6)),
    ),
    Case(
        "maximum of dice",
        "def main () = max (sample (uniform_int 1 6)) (sample (uniform_int 1 6))",
        normalised((max(a, b), 1.0) for a in range(1, 7) for b in range(1, 7)),
    ),
    Case(
        "hypergeometric",
        "def main () = sample (hypergeometric 10 4 3)",
        {k: math.comb(4, k) * math.comb(6, 3 - k) / math.comb(10, 3) for k in range(4)},
    ),
    Case(
        "beta binomial",
        "def main () = sample (beta_binomial 3 1.0 1.0)",
        dict.fromkeys(range(4), 0.25),
    ),
    Case(
        "memoised coins",
        "def main () = let eyes = mem (fn who -> flip 0.5) in (eyes 1 == eyes 1, eyes 1 == eyes 2)",
        {(True, True): 0.5, (True, False): 0.5},
    ),
    Case(
        "memoised pairs",
        "def main () = let f = mem (fn (x, y) -> sample (uniform_int 0 3)) in "
        "f (1, 2) + f (1, 2) + f (2, 1)",
        normalised((2 * a + b, 1.0) for a in range(4) for b in range(4)),
    ),
    Case(
        "memoised recursion",
        "def main () = letrec f n = if n < 2 then n else g (n - 1) + g (n - 2) and g n = f n in "
        "let h = mem (fn n -> f n + (if flip 0.5 then 1 else 0)) in h 10 - h 10 + h 5",
        {5: 0.5, 6: 0.5},
    ),
    Case(
        "two memo tables",
        "def main () = let f = mem (fn x -> flip 0.5) in "
        "let g = mem (fn x -> flip 0.5) in (f 0 == g 0, f 0 == f 0)",
        {(True, True): 0.5, (False, True): 0.5},
    ),
    Case(
        "memo on constructors",
        "data Who = Ann | Bob\ndef main () = let f = "
        "mem (fn who -> flip 0.25) in (f Ann, f Ann == f Bob)",
        flips([0.25, 0.25], lambda a, b: (a, a == b), lambda a, b: 1.0),
    ),
    Case(
        "memo on vectors",
        "def main () = let f = mem (fn v -> sample (uniform_int 0 1)) in "
        "f [1, 2] + f [1, 2] + f [2, 1]",
        {0: 0.25, 2: 0.25, 1: 0.25, 3: 0.25},
    ),
    Case(
        "hidden Markov model",
        """def step state seen =
  let next = flip (if state then 0.7 else 0.3) in
  observe (bernoulli (if next then 0.9 else 0.1)) seen; next
def main () = let first = flip 0.5 in observe (bernoulli (if first then 0.9 else 0.1)) true;
  fold step first [false, true]""",
        hmm_posterior(),
    ),
    Case(
        "hidden Markov model with data",
        """input seen : vector[bool]
def main () = let first = flip 0.5 in
  observe (bernoulli (if first then 0.9 else 0.1)) seen.[0];
  fold (fn s y -> let n = flip (if s then 0.7 else 0.3) in
    observe (bernoulli (if n then 0.9 else 0.1)) y; n) first (slice 1 2 seen)""",
        hmm_posterior(),
        {"seen": [True, False, True]},
    ),
    Case(
        "grammar",
        """def leaves () = if flip 0.15 then leaves () + leaves () else 1
def main () = leaves ()""",
        pcfg_lengths(),
        tolerance=1e-8,
    ),
    Case(
        "grammar as data",
        """data Phrase = Word | Pair(Phrase, Phrase)
def generate () = if flip 0.15 then let a = generate () in Pair (a, generate ()) else Word
def size p = match p with | Word -> 1 | Pair (a, b) -> size a + size b end
def main () = let p = generate () in condition (size p < 4); size p""",
        normalised((n, p) for n, p in pcfg_lengths().items() if n < 4),
        tolerance=1e-8,
    ),
    Case(
        "semi-Markov",
        """def segment position state =
  if position >= 4 then !state
  else segment (position + sample (uniform_int 1 2)) (!state)
def main () = segment 0 true""",
        semi_markov(),
    ),
    Case(
        "scalar implicature",
        """
def meaning u s = if u == 0 then s == 0 else if u == 1 then s > 0 else s == 3
def literal u s = if meaning u s then 1.0 / float (count (fn x -> meaning u x) (range 4)) else 0.0
def speaker s = categorical (map (fn u -> literal u s) (range 3))
def main () = let s = sample (uniform_int 0 3) in observe (speaker s) 1; s""",
        implicature(),
    ),
    Case(
        "coupons",
        """def main () = let v = repeat 4 (fn _ -> sample (uniform_int 0 2)) in
  count (fn k -> any (fn x -> x == k) v) (range 3)""",
        coupon(),
    ),
    Case(
        "Chinese restaurant",
        """def seat sizes n =
  let total = sum sizes in
  let k = sample (categorical (sizes ++ [1.0])) in
  if k == length sizes then sizes ++ [1.0]
  else mapi (fn i s -> if i == k then s + 1.0 else s) sizes
def main () = length (range_fold seat (slice 0 0 [1.0]) 4)""",
        crp_tables(),
    ),
    Case(
        "noisy or",
        """def main () = let a = flip 0.1 in let b = flip 0.2 in
  let p = 1.0 - 0.99 * (if a then 0.3 else 1.0) * (if b then 0.5 else 1.0) in
  observe (bernoulli p) true; a""",
        noisy_or(),
    ),
    Case(
        "ring of spins",
        """def main () = let s = repeat 3 (fn _ -> flip 0.5) in
  iter (fn i -> factor (if s.[i] == s.[(i + 1) % 3] then 0.5 else 0.0)) (range 3);
  count (fn x -> x) s""",
        ising(),
    ),
    Case(
        "topics of words",
        """input topics : vector[vector[float]]
def main () =
  let z = map (fn w -> let t = sample (categorical [0.6, 0.4]) in
    observe (categorical topics.[t]) w; t) [0, 0, 1] in
  z.[0]""",
        lda_topic(),
        {"topics": [[0.8, 0.2], [0.3, 0.7]]},
    ),
    Case(
        "constrained walk",
        """def main () =
  let (height, top) = range_fold (fn (h, top) _ ->
    let next = if flip 0.5 then h + 1 else h - 1 in
    condition (next >= -1); (next, max top next)) (0, -9) 4 in
  condition (height == 0); top""",
        walk(),
    ),
    Case(
        "Monty Hall",
        """def main () =
  let prize = sample (uniform_int 0 2) in
  let pick = sample (uniform_int 0 2) in
  let opened = sample (categorical (map (fn d -> if d == pick || d == prize then 0.0 else 1.0)
    (range 3))) in
  let other = 3 - pick - opened in
  other == prize""",
        monty_hall(),
    ),
    Case(
        "tug of war",
        """def main () =
  let strength = mem (fn who -> if flip 0.5 then 2.0 else 1.0) in
  let pull who = if flip 0.5 then strength who else 0.5 * strength who in
  let first = pull 0 + pull 1 > pull 2 in
  let second = pull 0 > pull 2 in
  condition (first && second); strength 0 == 2.0""",
        tug_of_war(),
    ),
    Case(
        "partition of a set",
        """def main () =
  let group = map (fn _ -> sample (uniform_int 0 1)) (range 3) in
  condition (group.[0] == group.[1]); (group.[0] == group.[2])""",
        {True: 0.5, False: 0.5},
    ),
    Case(
        "observing a coin",
        "def main () = let p = if flip 0.5 then 0.9 else 0.2 in "
        "iter (fn x -> observe (bernoulli p) x) [true, true, false]; p > 0.5",
        normalised([(True, 0.9 * 0.9 * 0.1), (False, 0.2 * 0.2 * 0.8)]),
    ),
    Case(
        "observing a binomial",
        "def main () = let n = sample (uniform_int 1 5) in observe (binomial n 0.5) 2; n",
        normalised((n, math.comb(n, 2) * 0.5**n) for n in range(2, 6)),
    ),
    Case(
        "observing a Poisson",
        "def main () = let n = sample (uniform_int 1 4) in observe (poisson (float n)) 3; n",
        normalised((n, n**3 * math.exp(-n)) for n in range(1, 5)),
    ),
    Case(
        "higher order",
        """def twice f x = f (f x)
def main () = let step = if flip 0.25 then (fn x -> x + 1) else (fn x -> x * 3) in twice step 2""",
        {4: 0.25, 18: 0.75},
    ),
    Case(
        "functions in data",
        """data Op = Op(int -> int)
def run op x = match op with | Op f -> f x end
def main () = let k = sample (uniform_int 1 2) in
  let op = if flip 0.5 then Op (fn x -> x + k) else Op (fn x -> x - k) in run op 10""",
        {11: 0.25, 12: 0.25, 9: 0.25, 8: 0.25},
    ),
    Case(
        "distributions as values",
        """def pick b = if b then binomial 2 0.5 else uniform_int 5 6
def main () = sample (pick (flip 0.5))""",
        {0: 0.125, 1: 0.25, 2: 0.125, 5: 0.25, 6: 0.25},
    ),
    Case(
        "vector of distributions",
        """def main () =
  let coins = [bernoulli 0.1, bernoulli 0.9] in
  let i = sample (uniform_int 0 1) in observe coins.[i] true; i""",
        {0: 0.1, 1: 0.9},
    ),
    Case(
        "log density",
        "def main () = let d = binomial 2 0.5 in "
        "let k = sample (uniform_int 0 2) in factor (log_density d k); k",
        {0: 0.25, 1: 0.5, 2: 0.25},
    ),
    Case(
        "closures in a vector",
        """def main () =
  let fs = map (fn i -> (fn x -> x * i)) (range 3) in
  fs.[sample (uniform_int 0 2)] 5""",
        normalised((k, 1.0) for k in (0, 5, 10)),
    ),
    Case(
        "mutual recursion",
        """def even n = if n == 0 then true else odd (n - 1)
def odd n = if n == 0 then false else even (n - 1)
def main () = even (sample (uniform_int 0 2))""",
        {True: 2 / 3, False: 1 / 3},
    ),
    Case(
        "local recursion with captured values",
        """def main () =
  let p = if flip 0.5 then 0.2 else 0.8 in
  letrec tries n = if n == 0 then 0 else (if flip p then 1 else 0) + tries (n - 1) in tries 3""",
        {k: (binomial(3, 0.2)[k] + binomial(3, 0.8)[k]) / 2 for k in range(4)},
    ),
    Case(
        "lists",
        """def main () =
  let l = list_map (fn x -> if flip 0.5 then x else 0) (Cons (1, Cons (2, Cons (4, Nil)))) in
  list_fold (fn a x -> a + x) 0 l""",
        dict.fromkeys(range(8), 0.125),
    ),
    Case(
        "trees",
        """data Tree = Tip | Fork(Tree, int, Tree)
def insert t x = match t with
  | Tip -> Fork (Tip, x, Tip)
  | Fork (l, y, r) -> if x < y then Fork (insert l x, y, r) else Fork (l, y, insert r x)
  end
def depth t = match t with | Tip -> 0 | Fork (l, _, r) -> 1 + max (depth l) (depth r) end
def main () = let (a, b, c) = (sample (uniform_int 0 2), sample (uniform_int 0 2),
    sample (uniform_int 0 2)) in
  condition (a != b && b != c && a != c); depth (insert (insert (insert Tip a) b) c)""",
        {2: 2 / 6, 3: 4 / 6},
    ),
    Case(
        "options",
        """def safe_divide a b = if b == 0 then None else Some (a // b)
def main () = match safe_divide 6 (sample (uniform_int 0 3)) with
  | None -> -1
  | Some n -> n
  end""",
        normalised((v, 1.0) for v in (-1, 6, 3, 2)),
    ),
    Case(
        "gather and filter",
        """def main () =
  let v = filter (fn x -> x % 2 == 0) (range 7) in
  sum (gather v [0, 3, sample (uniform_int 1 2)])""",
        {8: 0.5, 10: 0.5},
    ),
    Case(
        "flatten and slice",
        """def main () =
  let v = flatten [[1, 2], [3], [4, 5, 6]] in
  let k = sample (uniform_int 0 2) in sum (slice k 3 v)""",
        normalised((v, 1.0) for v in (6, 9, 12)),
    ),
    Case(
        "query by rejection in the language",
        """def attempt () =
  let a = flip 0.5 in let b = flip 0.5 in if a || b then a else attempt ()
def main () = attempt ()""",
        {True: 2 / 3, False: 1 / 3},
        tolerance=1e-13,
    ),
    Case(
        "explaining away",
        """def main () =
  let rain = flip 0.2 in let sprinkler = flip 0.1 in
  observe (bernoulli (if rain || sprinkler then 0.95 else 0.05)) true;
  condition sprinkler; rain""",
        flips([0.2, 0.1], lambda r, s: r, lambda r, s: 0.95 * s),
    ),
    Case(
        "medical diagnosis",
        """def main () =
  let cold = flip 0.2 in let lung = flip 0.01 in
  let cough = (cold && flip 0.5) || (lung && flip 0.3) || flip 0.02 in
  condition cough; (cold, lung)""",
        flips(
            [0.2, 0.01, 0.5, 0.3, 0.02],
            lambda c, g, *r: (c, g),
            lambda c, g, x, y, z: float((c and x) or (g and y) or z),
        ),
    ),
    Case(
        "theory of mind",
        """def speaker () = sample (categorical [0.2, 0.8])
def belief word = if word == 0 then 0.9 else 0.3
def main () = let word = speaker () in observe (bernoulli (belief word)) true; word""",
        normalised([(0, 0.2 * 0.9), (1, 0.8 * 0.3)]),
    ),
    Case(
        "Schelling coordination",
        """def agree depth =
  let mine = flip 0.55 in
  if depth == 0 then mine else let other = agree (depth - 1) in condition (mine == other); mine
def main () = agree 3""",
        normalised([(True, 0.55**4), (False, 0.45**4)]),
    ),
    Case(
        "linear Boolean equations",
        """def main () =
  let x = map (fn _ -> flip 0.5) (range 4) in
  condition (x.[0] != x.[1]); condition (x.[1] != x.[2]); condition (x.[2] == x.[3]);
  (x.[0], x.[3])""",
        {(True, True): 0.5, (False, False): 0.5},
    ),
    Case(
        "counting paths by shift and reset",
        """def main () =
  let p = prompt () in
  reset p (fn () ->
    let a = shift p (fn k -> k 1 + k 2) in
    let b = shift p (fn k -> k 10 + k 20) in
    a * b)""",
        {90: 1.0},
        enumerable=False,
    ),
    Case(
        "enumeration written in the language",
        """
def amb p q = shift p (fn k -> q * k true + (1.0 - q) * k false)
def main () =
  let p = prompt () in
  let answer = reset p (fn () ->
    let a = amb p 0.3 in let b = amb p 0.6 in if a || b then 1.0 else 0.0) in
  floor (answer * 1000.0 + 0.5)""",
        {720: 1.0},
        enumerable=False,
    ),
    Case(
        "generators by shift",
        """def main () =
  let p = prompt () in
  let emit x = shift p (fn k -> Cons (x, k ())) in
  let l = reset p (fn () -> emit 1; emit (if flip 0.5 then 2 else 3); Nil) in
  list_fold (fn a x -> a * 10 + x) 0 l""",
        {12: 0.5, 13: 0.5},
        enumerable=False,
    ),
    Case(
        "early exit",
        """def main () =
  let p = prompt () in
  reset p (fn () ->
    iter (fn x -> if x > 2 then shift p (fn _ -> x) else ()) [1, 2, sample (uniform_int 2 4), 9];
    0)""",
        normalised((v, 1.0) for v in (9, 3, 4)),
        enumerable=False,
    ),
]
