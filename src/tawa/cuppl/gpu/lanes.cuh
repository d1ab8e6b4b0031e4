// Loops over data, shared by the lanes of a warp (`gather.py`).
//
// Each lane runs a turn, and keeps a term or a partial derivative in each slot. Then a lane for each
// slot adds up those of all turns, in their order, so that the sums have the bits of the loop.

#define LANE (int)(threadIdx.x % WARP)

template <int SLOTS> struct Slots {
  double term[SLOTS];
  unsigned place[SLOTS];  // of a partial derivative; 0 is none
  i64 fuel;

  INLINE_MEMBER void put(int slot, i64 at, double partial) {
    place[slot] = (unsigned)at;
    term[slot] = at != 0 ? partial : 0.0;
  }
};

// A row for each slot.
enum { ROW = WARP + 1 };
DEVICE double* lane_terms() {
  SHARED double terms[BLOCK / WARP * MOST_SLOTS * ROW];
  return terms + threadIdx.x / WARP * MOST_SLOTS * ROW;
}

// The terms of some slots, added to a number turn by turn.
INLINE double sum_of_turns(double sum, const double* terms, unsigned slots, int turns) {
  if ((slots & (slots - 1)) == 0) {
    const double* row = terms + first_of(slots) * ROW;
    _Pragma("unroll 8")
    for (int turn = 0; turn < turns; ++turn) sum += row[turn];
    return sum;
  }
  for (int turn = 0; turn < turns; ++turn)
    for (unsigned rest = slots; rest; rest &= rest - 1) sum += terms[first_of(rest) * ROW + turn];
  return sum;
}

// Adds to the adjoints of places that differ between turns: the first turn of each place adds up.
INLINE void add_apart(double* adjoints, unsigned place, const double* row) {
  unsigned same = warp_match(place);
  if (place == 0 || first_of(same) != LANE) return;
  double sum = adjoints[place];
  for (; same; same &= same - 1) sum += row[first_of(same)];
  adjoints[place] = sum;
}

// Turns of a loop, as many at a time as there are lanes; the first turn that is left. That is one
// that fails, or whose adjoints are in several slots, unless no turn is left.
template <int SLOTS, int WEIGHTS, class Turn>
INLINE i64 gather(Context& ctx, i64 first, i64 limit, Turn turn) {
  if (SLOTS > WARP) return first;
  double* terms = lane_terms();
  double* adjoints = (double*)MEMORY(ctx.adjoints);
  for (; first + 1 < limit; first += WARP) {
    const int turns = limit - first < WARP ? (int)(limit - first) : WARP;
    Slots<SLOTS> own;
    UNROLL for (int slot = 0; slot < SLOTS; ++slot) own.put(slot, 0, 0.0);
    own.fuel = ctx.fuel;
    bool good = LANE >= turns || turn(first + LANE, own);
    i64 spent = LANE < turns ? ctx.fuel - own.fuel : 0;
    good = good && spent >= 0 && spent < 1 << 26;
    if (!warp_all(good)) return first;
    spent = warp_add((unsigned)spent);
    if (spent > ctx.fuel - spent) return first;  // each turn has what it needs
    UNROLL for (int slot = 0; slot < SLOTS; ++slot) terms[slot * ROW + LANE] = own.term[slot];
    // A slot is even if all its partial derivatives are of one place.
    unsigned even = (1u << WEIGHTS) - 1, place = LANE < WEIGHTS ? ~0u : 0;
    UNROLL for (int slot = WEIGHTS; slot < SLOTS; ++slot) {
      unsigned top = warp_max(own.place[slot]);
      bool same = warp_all(own.place[slot] == top || own.place[slot] == 0);
      even |= (unsigned)same << slot;
      if (LANE == slot && same) place = top;
    }
    unsigned low[SLOTS], high[SLOTS];
    bool clash = false;
    UNROLL for (int slot = WEIGHTS; slot < SLOTS; ++slot) {
      low[slot] = ~0u, high[slot] = 0;
      if (even >> slot & 1) continue;
      low[slot] = warp_min(own.place[slot] ? own.place[slot] : ~0u);
      high[slot] = warp_max(own.place[slot]);
      clash = clash || LANE >= WEIGHTS && place >= low[slot] && place <= high[slot];
      UNROLL for (int other = WEIGHTS; other < slot; ++other)
        clash = clash || low[slot] <= high[other] && low[other] <= high[slot];
    }
    if (warp_any(clash)) return first;
    warp_sync();
    const unsigned group = warp_match(place);
    const bool adds = place != 0 && first_of(group) == LANE;
    double sum = 0.0;
    if (adds) {
      sum = LANE < WEIGHTS ? ctx.weight : adjoints[place];
      sum = sum_of_turns(sum, terms, group, turns);
    }
    const double weight = warp_word(sum, 0);
    if (!(fabs(weight) < float_of_bits(0x7FF0000000000000ll))) return first;
    if (adds && LANE >= WEIGHTS) adjoints[place] = sum;
    UNROLL for (int slot = WEIGHTS; slot < SLOTS; ++slot)
      if (!(even >> slot & 1)) add_apart(adjoints, own.place[slot], terms + slot * ROW);
    ctx.weight = weight;
    ctx.fuel -= spent;
    warp_sync();
  }
  return first < limit ? first : limit;
}
