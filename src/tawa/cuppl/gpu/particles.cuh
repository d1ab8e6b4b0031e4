// Particles in memory: their frames at rest, and the stacks on which they run.
//
// At rest the live words of a particle lie in rows, the same word of all particles side by side.
// The rows form a ring of `PHYSICAL` rows, of which `ROWS` from `BASE` on are in use: resampling
// writes a few rows into the free ones, then into those that this freed, and so on. Words that a
// deep particle has beyond the rows lie in a block of the overflow pool; its last row then says
// where (2 * offset + pool). A block is never written again before the next step, so children
// share it.
//
// To run, a particle's words are copied to the stack of a lane, whose words are WARP apart. Only as
// many stacks exist as lanes can run at once. What was run is copied back when it suspends; a
// particle that ran out of stack or pool is as it was before.

enum {
  STEP = 2, PARTICLES = 3, SEED_LOW = 5, SEED_HIGH = 6, FUEL = 11, DEPTH_LIMIT = 12,
  FAILED_STATUS = 13, FAILED_SITE = 14, FAILED_PARTICLE = 15, THRESHOLD = 16, LOG_Z = 17,
  RESAMPLED = 18, STATE = 19, INPUTS = 21, SCALE = 23, STREAM = 24, HEADER = 26,
  BEST = 32, ACTIVE = 33, WAITS = 34, OUTCOME = 35, TOTAL = 36, SQUARES = 37, RESAMPLING = 38,
  POINT = 39, LOGW = 40, WEIGHTS = 41, CHUNKS = 43, REGIONS = 44, SUPERS = 45,
  KEEP = 46, OBJECTS = 47, FRAMES = 48, LOW = 49, HIGH = 50, TARGET = 51, ROWS = 52, MASK = 53,
  TABLE_OF_ROWS = 54, BASE = 55, PHYSICAL = 56, GAP = 57, OLD_ROWS = 58, DEEP = 59,
  SPILLERS = 60, SPILL_WORDS = 61, SLACK = 62, SHALLOW_LANES = 63,
  NEXT = 64,          // particles taken after each warp's first: shallow, deep
  STACKS = 66,        // address of the lanes' stacks: shallow, deep
  STACK_WORDS = 68,   // words of each: shallow, deep
  POOLS = 70,         // addresses of the two overflow pools
  POOL_WORDS = 72,    // their sizes
  POOL_NEXT = 74,     // words in use of the one being written
  GRAB = 75,          // particles that a warp takes at once
  SLOTS = 76,         // address of a word for each large stack: whether it is taken
  SLOT_COUNT = 77,
  ARRIVED = 78,       // blocks that are done with a kernel
  PATIENCE = 79,      // particles that may need a full pool before the rest is left for later
  BARRIER = 80,       // blocks that have come to the barriers of a kernel
  DECIDED = 81,       // steps whose end has been decided
  LIVE = 82,          // words that were copied to a fresh heap
  // Of a share of particles on several devices (`shares.cuh`):
  FIRST = 83,         // the number of its first particle
  WHOLE = 84,         // particles of all shares
  SHARES = 85,        // how many shares there are
  SHARE_SIZE = 86,    // particles of each, but for the last
  CONTROLS = 87,      // address of the control blocks' addresses
  SUM_BEFORE = 88,    // weights of the shares before
  SUM_OF_ALL = 89     // weights of all shares
};
enum { RUNNING = 0, FINISHED = 1, NEED_ROOM = 2, FAILED = 3, DEAD = 4 };
enum { HEAP_FULL = 1, STACK_FULL = 3, POOL_FULL = 4, REJECTED = 14 };

#define TOP_BITS 34
#define TOP_MASK ((1ll << TOP_BITS) - 1)
#ifdef HAS_SHARES
#define FIRST_OF(control) control[FIRST]
#define ALL_OF(control) control[WHOLE]
#define SUM_BEFORE_OF(control) control[SUM_BEFORE]
#define SUM_OF(control) control[SUM_OF_ALL]
// The control block of the share that has a particle, whose number becomes that in its share.
INLINE const i64* home_of(const i64* control, i64& p) {
  i64 size = control[SHARE_SIZE], share = p / size;
  p -= share * size;
  return ((const i64* const*)control[CONTROLS])[share];
}
#else
#define FIRST_OF(control) 0
#define ALL_OF(control) control[PARTICLES]
#define SUM_BEFORE_OF(control) 0
#define SUM_OF(control) control[TOTAL]
INLINE const i64* home_of(const i64* control, i64&) { return control; }
#endif
#define MINUS_INFINITY float_of_bits((i64)0xFFF0000000000000ull)

// Doubles as integers of the same order.
DEVICE u64 ordered(double x) {
  u64 b = (u64)bits_of(x);
  return b >> 63 ? ~b : b | 1ull << 63;
}
DEVICE double unordered(u64 b) { return float_of_bits((i64)(b >> 63 ? b & ~(1ull << 63) : ~b)); }

DEVICE void load_context(Context& ctx, i64* control, i64 thread) {
  ctx.key0 = control[SEED_LOW];
  ctx.key1 = control[SEED_HIGH];
  ctx.step = control[STEP];
  ctx.stream = control[STREAM];
  ctx.inputs = control[INPUTS];
  ctx.depth_limit = control[DEPTH_LIMIT];
  ctx.memo = 0;
  ctx.memo_count = 0;
  ctx.draw = 0;
  ctx.spare = 0;
  ctx.trace = 0;
  ctx.address = 0;
  ctx.depth = 0;
  ctx.status = 0;
  i64* region = (i64*)control[REGIONS] + 2 * thread;
  ctx.heap = region[0];
  ctx.heap_end = region[1];
}

DEVICE void save_heap(Context& ctx, i64* control, i64 thread) {
  i64* region = (i64*)control[REGIONS] + 2 * thread;
  region[0] = ctx.heap;
  region[1] = ctx.heap_end;
}

// Whether this block is the last of its grid to come here. What the others wrote can be read with
// atomic operations.
DEVICE bool is_last_block(i64* control, bool* shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    *shared = atomicAdd((u64*)control + ARRIVED, 1ull) == gridDim.x - 1;
    if (*shared) control[ARRIVED] = 0;
  }
  __syncthreads();
  return *shared;
}

// The failure of the first particle is kept: its key is the largest.
enum { STATUS_BITS = 8, SITE_BITS = 22 };
#define LAST_PARTICLE (~0ull >> (STATUS_BITS + SITE_BITS))

DEVICE void note_failure(i64* control, Context& ctx, i64 p, i64 status) {
  u64 key = (LAST_PARTICLE - (u64)p) << SITE_BITS | ((u64)ctx.site & ((1ull << SITE_BITS) - 1));
  atomicMax((u64*)control + FAILED_STATUS, key << STATUS_BITS | (u64)status);
}

// Whether a particle before this one failed.
DEVICE bool failed_before(const i64* control, i64 p) {
  u64 key = (u64)((volatile const i64*)control)[FAILED_STATUS];
  return key != 0 && LAST_PARTICLE - (key >> (STATUS_BITS + SITE_BITS)) < (u64)p;
}

// Whether to leave this particle and those after it: one before it failed, or the pool is full and
// many more would need it.
DEVICE bool gave_up(const i64* control, i64 p) {
  volatile const i64* now = control;
  return failed_before(control, p)
      || ((now[WAITS] >> POOL_FULL & 1) && now[SPILLERS] > control[PATIENCE]);
}

DEVICE void note_wait(i64* control, Context& ctx, i64 p, i64 what) {
  atomicOr((u64*)control + WAITS, 1ull << what);
  control[FAILED_SITE] = ctx.site;
  control[FAILED_PARTICLE] = p;
}

#ifdef HAS_MACHINE
INLINE i64* row_at(const i64* control, i64 base, i64 index) {
  i64 at = base + index;
  if (at >= control[PHYSICAL]) at -= control[PHYSICAL];
  return ((i64**)control[TABLE_OF_ROWS])[at];
}

INLINE i64* pool_at(const i64* control, i64 block, i64 word) {
  return (i64*)control[POOLS + (block & 1)] + (block >> 1) + word;
}

// The rows in use, without looking up in `control` where they are each time.
struct Rows {
  i64* const* table;
  int base, physical;
  INLINE_MEMBER explicit Rows(const i64* control)
      : table((i64* const*)control[TABLE_OF_ROWS]), base((int)control[BASE]),
        physical((int)control[PHYSICAL]) {}
  INLINE_MEMBER i64* operator[](int index) const {
    int at = base + index;
    return table[at >= physical ? at - physical : at];
  }
};

// Copy words from one place to another, some at once: all loads of them come before any store.
#define AT_ONCE 6
#define COPY_WORDS(begin, end, source, target)                                    \
  for (int word_ = begin; word_ < (end); word_ += AT_ONCE) {                        \
    i64 held_[AT_ONCE];                                                             \
    UNROLL for (int k = 0; k < AT_ONCE; ++k) {                                      \
      int word = word_ + k;                                                         \
      if (word < (end)) held_[k] = source;                                          \
    }                                                                               \
    UNROLL for (int k = 0; k < AT_ONCE; ++k) {                                      \
      int word = word_ + k;                                                         \
      if (word < (end)) target = held_[k];                                          \
    }                                                                               \
  }

// Copy a particle's words to a stack.
DEVICE void load_words(const i64* control, i64 p, i64 stack, i64 first) {
  const Rows rows(control);
  i64 used = first & TOP_MASK;
  int count = (int)control[ROWS], here = used <= count ? (int)used : count - 1;
  COPY_WORDS(1, here, rows[word][p], int_at(stack + 8 * WARP * word))
  if (used > count) {
    i64 block = rows[count - 1][p];
    for (i64 word = here; word < used; ++word)
      int_at(stack + 8 * WARP * word) = *pool_at(control, block, word - here);
  }
  int_at(stack) = (first & ~TOP_MASK) | used * WARP;
}

// Copy a stack back, to a new block if it is too deep for the rows; false if the pool is full.
DEVICE bool store_words(i64* control, i64 p, i64 stack, i64 used, i64 flags) {
  const Rows rows(control);
  int count = (int)control[ROWS], here = used <= count ? (int)used : count - 1;
  if (used > count) {
    i64 pool = (control[STEP] + 1) & 1, words = used - here;
    atomicAdd((u64*)control + SPILLERS, 1ull);
    atomicAdd((u64*)control + SPILL_WORDS, (u64)words);
    i64 at = (i64)atomicAdd((u64*)control + POOL_NEXT, (u64)words);
    if (at + words > control[POOL_WORDS + pool]) return false;
    i64 block = 2 * at + pool;
    for (i64 word = here; word < used; ++word)
      *pool_at(control, block, word - here) = int_at(stack + 8 * WARP * word);
    rows[here][p] = block;
  }
  COPY_WORDS(2, here, int_at(stack + 8 * WARP * word), rows[word][p])
  rows[1][p] = flags;
  rows[0][p] = (int_at(stack) & ~TOP_MASK) | used;
  return true;
}

// Copy words back to where they were loaded from, blocks included.
DEVICE void store_back(i64* control, i64 p, i64 stack, i64 used) {
  i64 rows = control[ROWS], base = control[BASE];
  i64 here = used <= rows ? used : rows - 1;
  for (i64 word = 2; word < here; ++word)
    row_at(control, base, word)[p] = int_at(stack + 8 * WARP * word);
  for (i64 word = here; word < used; ++word)
    *pool_at(control, row_at(control, base, here)[p], word - here) = int_at(stack + 8 * WARP * word);
}

// A large stack for a particle that needs one; -1 if all that were tried are taken.
OUTLINE i64 take_stack(i64* control, i64 thread) {
  unsigned count = (unsigned)control[SLOT_COUNT];
  for (unsigned attempt = 0; attempt < 64 && attempt < count; ++attempt) {
    unsigned slot = ((unsigned)thread * 61 + attempt * WARP) % count;
    if (atomicMax((u64*)control[SLOTS] + slot, 1ull) == 0) return slot;
  }
  return -1;
}
DEVICE void give_stack(i64* control, i64 slot) {
  __threadfence();
  atomicAnd((u64*)control[SLOTS] + slot, 0ull);
}
DEVICE i64 stack_of_slot(const i64* control, i64 slot) {
  i64 lane = slot % WARP;
  return control[STACKS + 1] + 8 * ((slot - lane) * control[STACK_WORDS + 1] + lane);
}

// What a lane has seen of the step: the largest weight, and particles that have not finished.
struct Tally {
  u64 best, active;
};

DEVICE void count_particle(Tally& tally, double weight, i64 flags) {
  u64 w = ordered(weight);
  if (w > tally.best) tally.best = w;
  tally.active += flags >= 0;
}

// Get a particle ready on a stack; false if it is not its turn (any more).
DEVICE bool load_particle(Context& ctx, i64* control, i64 p, i64 stack, i64 deep, Tally& tally) {
  const Rows rows(control);
  i64 flags = rows[1][p], first = rows[0][p];
  double weight = ((double*)control[LOGW])[p];
  if (flags >> 32 != ctx.step) {
    if (!deep) count_particle(tally, weight, flags);
    return false;
  }
  if ((first & TOP_MASK) + control[SLACK] > control[STACK_WORDS + deep]) {
    if (deep) note_wait(control, ctx, p, STACK_FULL);
    else atomicAdd((u64*)control + DEEP, 1ull);
    return false;
  }
  load_words(control, p, stack, first);
  int_at(stack + 8 * WARP) = flags;
  ctx.particle = p + FIRST_OF(control);
  ctx.weight = weight;
  ctx.fuel = control[FUEL];
  cuppl_restore_draw(ctx, flags & 0xFFFFFFFFll);
  if (control[HEADER] > 2) {
    ctx.memo = int_at(stack + 2 * 8 * WARP);
    ctx.memo_count = int_at(stack + 3 * 8 * WARP);
  }
  return true;
}

// Put away a particle that stopped with an outcome; its state changes only if it got somewhere.
DEVICE void settle_particle(
    Context& ctx, i64* control, i64 p, i64 stack, i64 deep, i64 outcome, Tally& tally) {
  i64 used = (int_at(stack) & TOP_MASK) / WARP, flags = int_at(stack + 8 * WARP);
  if (outcome > HEAP_FULL && outcome != STACK_FULL && outcome != REJECTED) {
    note_failure(control, ctx, p, outcome);
    return;
  }
  if (outcome == STACK_FULL) {
    if (deep) note_wait(control, ctx, p, STACK_FULL);
    else atomicAdd((u64*)control + DEEP, 1ull);
    return;
  }
  double weight = outcome == REJECTED ? MINUS_INFINITY : ctx.weight;
  if (outcome == 0) flags = (ctx.step + 1) << 32;
  else if (outcome != HEAP_FULL) flags = -(1ll << 32);
  if (outcome == REJECTED) {
    used = control[HEADER];
    for (i64 word = used; word < control[ROWS]; ++word) row_at(control, control[BASE], word)[p] = 0;
  }
  if (outcome == HEAP_FULL) note_wait(control, ctx, p, HEAP_FULL);
  if (!store_words(control, p, stack, used, flags)) {
    note_wait(control, ctx, p, POOL_FULL);
    return;
  }
  ((double*)control[LOGW])[p] = weight;
  if (outcome != HEAP_FULL) count_particle(tally, weight, flags);
}

// All particles at the entry of the program.
KERNEL void begin(i64* control) {
  i64 n = control[PARTICLES], p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (p >= n) return;
  i64 header = control[HEADER];
  for (i64 word = 1; word < header; ++word) row_at(control, 0, word)[p] = 0;
  row_at(control, 0, 0)[p] = (i64)((u64)(p + FIRST_OF(control)) << TOP_BITS | (u64)(header + 2));
  row_at(control, 0, header)[p] = FINAL_POINT;
  row_at(control, 0, header + 1)[p] = ENTRY_POINT;
  ((double*)control[LOGW])[p] = 0.0;
}

// More rows: what deep particles have in blocks moves into the new ones.
KERNEL void widen(i64* control) {
  i64 n = control[PARTICLES], p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (p >= n) return;
  i64 rows = control[ROWS], old = control[OLD_ROWS], base = control[BASE];
  i64 used = row_at(control, base, 0)[p] & TOP_MASK;
  if (used <= old) return;
  i64 block = row_at(control, base, old - 1)[p];
  i64 here = used <= rows ? used : rows - 1;
  for (i64 word = old - 1; word < here; ++word)
    row_at(control, base, word)[p] = *pool_at(control, block, word - (old - 1));
  if (used > rows) row_at(control, base, rows - 1)[p] = block + 2 * (rows - old);
}
#endif
