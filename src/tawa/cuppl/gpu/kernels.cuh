// The kernels of sequential Monte Carlo. One thread is one particle; `control` is the control
// block, whose words up to 31 are those of the CPU's driver. All decisions are taken on the
// device from integer sums, which do not depend on the order of the threads.

enum {
  STEP = 2, PARTICLES = 3, SEED_LOW = 5, SEED_HIGH = 6, LIMIT = 7, DEPTH_LIMIT = 12, FAILED_STATUS = 13,
  FAILED_SITE = 14, FAILED_PARTICLE = 15, THRESHOLD = 16, LOG_Z = 17, RESAMPLED = 18, STATE = 19,
  OTHER = 20, INPUTS = 21, SCALE = 23, STREAM = 24, HEADER = 26,
  BEST = 32, ACTIVE = 33, WAITS = 34, OUTCOME = 35, TOTAL = 36, SQUARES = 37, RESAMPLING = 38,
  POINT = 39, LOGW = 40, WEIGHTS = 41, LAST = 42, CHUNKS = 43, REGIONS = 44, SUPERS = 45,
  KEEP = 46, OBJECTS = 47, FRAMES = 48, LOW = 49, HIGH = 50, TARGET = 51, ROWS = 52, MASK = 53,
  SCRATCH = 54, SCRATCH_WORDS = 55, SCRATCH_SLACK = 56
};
enum { RUNNING = 0, FINISHED = 1, NEED_ROOM = 2, FAILED = 3, DEAD = 4 };

#define TOP_MASK ((1ll << 38) - 1)

// Doubles as integers of the same order.
DEVICE u64 ordered(double x) {
  u64 b = (u64)bits_of(x);
  return b >> 63 ? ~b : b | 1ull << 63;
}
DEVICE double unordered(u64 b) { return float_of_bits((i64)(b >> 63 ? b & ~(1ull << 63) : ~b)); }

// Sum over a block; every thread must call it.
DEVICE u64 block_sum(u64 value, u64* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  u64 total = shared[0];
  __syncthreads();
  return total;
}

DEVICE u64 block_max(u64 value, u64* shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x])
      shared[threadIdx.x] = shared[threadIdx.x + half];
    __syncthreads();
  }
  u64 top = shared[0];
  __syncthreads();
  return top;
}

DEVICE void load_context(Context& ctx, i64* control, i64 p) {
  ctx.inputs = control[INPUTS];
  ctx.depth_limit = control[DEPTH_LIMIT];
  ctx.memo = 0;
  ctx.memo_count = 0;
  ctx.draw = 0;
  ctx.spare = 0;
  ctx.trace = 0;
  ctx.address = 0;
  i64* region = (i64*)control[REGIONS] + 2 * p;
  ctx.heap = region[0];
  ctx.heap_end = region[1];
}

DEVICE void save_heap(Context& ctx, i64* control, i64 p) {
  i64* region = (i64*)control[REGIONS] + 2 * p;
  region[0] = ctx.heap;
  region[1] = ctx.heap_end;
}

DEVICE void note_failure(i64* control, Context& ctx, i64 p, i64 status) {
  if (atomicAdd((u64*)control + FAILED_STATUS, 0ull) == 0) {
    control[FAILED_SITE] = ctx.site;
    control[FAILED_PARTICLE] = p;
    control[FAILED_STATUS] = status;
  }
}

#ifdef HAS_MACHINE
KERNEL void advance(i64* control) {
  SHARED u64 shared[BLOCK];
  if (control[OUTCOME] != RUNNING) return;
  i64 n = control[PARTICLES], step = control[STEP];
  i64 p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  double* logw = (double*)control[LOGW];
  u64 best = 0, active = 0;
  if (p < n) {
    i64 base = control[STATE] + 8 * p;
    if (int_at(base + 8 * n) >> 32 == step) {
      Context ctx;
      load_context(ctx, control, p);
      i64 outcome = cuppl_run_particle(
          ctx, (i64)control, p, step, base, n, control[LIMIT], logw[p]);
      if (outcome <= 0) {
        logw[p] = ctx.weight;
        int_at(base + 8 * n) = outcome == 0 ? (step + 1) << 32 : -(1ll << 32);
      } else if (outcome == 14) {
        logw[p] = float_of_bits((i64)0xFFF0000000000000ull);
        int_at(base + 8 * n) = -(1ll << 32);
        int_at(base) = (int_at(base) & ~TOP_MASK) | control[HEADER] * n;
      } else if (outcome <= 3) {
        atomicOr((u64*)control + WAITS, 1ull << outcome);
        control[FAILED_SITE] = ctx.site;
        control[FAILED_PARTICLE] = p;
      } else {
        note_failure(control, ctx, p, outcome);
      }
      save_heap(ctx, control, p);
    }
    active = int_at(base + 8 * n) >= 0;
    best = ordered(logw[p]);
  }
  best = block_max(best, shared);
  active = block_sum(active, shared);
  if (threadIdx.x == 0) {
    atomicMax((u64*)control + BEST, best);
    atomicAdd((u64*)control + ACTIVE, active);
  }
}

// Particles whose stacks are deeper than the rows of the state run on scratch stacks, few at a
// time: between two suspensions a recursion may be deep, but what it leaves behind is shallow.
KERNEL void advance_deep(i64* control) {
  i64 n = control[PARTICLES], step = control[STEP], words = control[SCRATCH_WORDS];
  i64 thread = (i64)blockIdx.x * BLOCK + threadIdx.x, threads = (i64)gridDim.x * BLOCK;
  i64 scratch = control[SCRATCH] + 8 * words * thread;
  double* logw = (double*)control[LOGW];
  for (i64 p = thread; p < n; p += threads) {
    i64 base = control[STATE] + 8 * p;
    if (int_at(base + 8 * n) >> 32 != step) continue;
    i64 used = (int_at(base) & TOP_MASK) / n;
    for (i64 word = 0; word < used; ++word) int_at(scratch + 8 * word) = int_at(base + 8 * n * word);
    int_at(scratch) = (int_at(base) & ~TOP_MASK) | used;
    Context ctx;
    load_context(ctx, control, p);
    i64 outcome = cuppl_run_particle(
        ctx, (i64)control, p, step, scratch, 1, words - control[SCRATCH_SLACK], logw[p]);
    save_heap(ctx, control, p);
    used = int_at(scratch) & TOP_MASK;
    if (outcome > 3 && outcome != 14) {
      note_failure(control, ctx, p, outcome);
    } else if (outcome > 0 && outcome <= 3) {
      control[FAILED_SITE] = ctx.site;
      control[FAILED_PARTICLE] = p;
      atomicOr((u64*)control + WAITS, 1ull << outcome);
    } else if (outcome != 14 && used * n > control[LIMIT]) {
      atomicOr((u64*)control + WAITS, 16ull);
    } else {
      i64 flag = outcome == 0 ? (step + 1) << 32 : -(1ll << 32);
      if (outcome == 14) used = control[HEADER];
      for (i64 word = 0; word < used; ++word)
        int_at(base + 8 * n * word) = int_at(scratch + 8 * word);
      int_at(base) = (int_at(scratch) & ~TOP_MASK) | used * n;
      int_at(base + 8 * n) = flag;
      logw[p] = outcome == 14 ? float_of_bits((i64)0xFFF0000000000000ull) : ctx.weight;
    }
  }
}
#endif

// Integer weights, their sums over blocks, over groups of BLOCK blocks, and over everything.
KERNEL void weigh(i64* control) {
  SHARED u64 shared[BLOCK];
  i64 outcome = control[OUTCOME];
  if (outcome != RUNNING || control[WAITS] != 0 || control[FAILED_STATUS] != 0) return;
  i64 n = control[PARTICLES];
  i64 p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  double top = unordered((u64)control[BEST]), scale = float_of_bits(control[SCALE]);
  u64 weight = 0, square = 0;
  if (p < n) {
    Context ctx;
    double w = cuppl_exp(ctx, ((double*)control[LOGW])[p] - top);
    weight = (u64)truncate(w * scale + 0.5);
    square = (u64)truncate(w * w * scale + 0.5);
    ((u64*)control[WEIGHTS])[p] = weight;
  }
  u64 total = block_sum(weight, shared), squares = block_sum(square, shared);
  if (threadIdx.x == 0) {
    ((u64*)control[CHUNKS])[blockIdx.x] = total;
    atomicAdd((u64*)control[SUPERS] + blockIdx.x / BLOCK, total);
    atomicAdd((u64*)control + TOTAL, total);
    atomicAdd((u64*)control + SQUARES, squares);
  }
}

// One thread: how the step ended, and whether to resample.
KERNEL void decide(i64* control) {
  if (threadIdx.x != 0 || control[OUTCOME] != RUNNING) return;
  double top = unordered((u64)control[BEST]);
  control[RESAMPLING] = 0;
  if (control[FAILED_STATUS] != 0) control[OUTCOME] = FAILED;
  else if (control[WAITS] != 0) control[OUTCOME] = NEED_ROOM;
  else if (bits_of(top) == (i64)0xFFF0000000000000ull) control[OUTCOME] = DEAD;
  else if (control[ACTIVE] == 0) control[OUTCOME] = FINISHED;
  if (control[OUTCOME] != RUNNING) return;
  double scale = float_of_bits(control[SCALE]);
  double total = (double)control[TOTAL] / scale, squares = (double)control[SQUARES] / scale;
  control[RESAMPLING] = total * total < float_of_bits(control[THRESHOLD]) * squares;
  if (control[RESAMPLING]) {
    Context ctx;
    ctx.key0 = control[SEED_LOW];
    ctx.key1 = control[SEED_HIGH];
    ctx.particle = 0;
    ctx.step = control[STEP];
    ctx.stream = control[STREAM] + 1;
    ctx.draw = 0;
    control[POINT] = bits_of(cuppl_next_uniform(ctx));
    double mean = total / (double)control[PARTICLES];
    control[LOG_Z] = bits_of(float_of_bits(control[LOG_Z]) + top + cuppl_log(ctx, mean));
    control[RESAMPLED] += 1;
  }
}

// For each particle, how many of the equidistant points lie below the end of its weight.
KERNEL void count_children(i64* control) {
  SHARED u64 shared[BLOCK];
  if (control[OUTCOME] != RUNNING || !control[RESAMPLING]) return;
  i64 n = control[PARTICLES];
  i64 p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  i64 group = blockIdx.x / BLOCK, member = blockIdx.x % BLOCK;
  u64 before = 0;
  for (i64 g = threadIdx.x; g < group; g += BLOCK) before += ((u64*)control[SUPERS])[g];
  if ((i64)threadIdx.x < member) before += ((u64*)control[CHUNKS])[group * BLOCK + threadIdx.x];
  before = block_sum(before, shared);
  shared[threadIdx.x] = p < n ? ((u64*)control[WEIGHTS])[p] : 0;
  __syncthreads();
  for (int reach = 1; reach < BLOCK; reach *= 2) {
    u64 more = (int)threadIdx.x >= reach ? shared[threadIdx.x - reach] : 0;
    __syncthreads();
    shared[threadIdx.x] += more;
    __syncthreads();
  }
  if (p < n) {
    Context ctx;
    i64 cumulative = (i64)(before + shared[threadIdx.x]);
    ((i64*)control[LAST])[p] = cuppl_offspring_before(
        ctx, cumulative, control[TOTAL], n, float_of_bits(control[POINT]));
  }
}

// Each slot finds its parent by bisection and takes over its state.
KERNEL void copy_states(i64* control) {
  if (control[OUTCOME] != RUNNING || !control[RESAMPLING]) return;
  i64 n = control[PARTICLES];
  i64 child = (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (child >= n) return;
  const i64* last = (const i64*)control[LAST];
  i64 low = 0, high = n - 1;
  while (low < high) {
    i64 middle = (low + high) >> 1;
    if (last[middle] > child) high = middle; else low = middle + 1;
  }
  const i64* from = (const i64*)control[STATE];
  i64* to = (i64*)control[OTHER];
  i64 words = (from[low] & TOP_MASK) / n;
  for (i64 word = 0; word < words; ++word) to[word * n + child] = from[word * n + low];
  ((double*)control[LOGW])[child] = 0.0;
}

// One block: get ready for the next step.
KERNEL void turn(i64* control) {
  i64 blocks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  for (i64 g = threadIdx.x; g <= blocks / BLOCK; g += BLOCK) ((u64*)control[SUPERS])[g] = 0;
  if (threadIdx.x != 0 || control[OUTCOME] != RUNNING) return;
  if (control[RESAMPLING]) {
    i64 swap = control[STATE];
    control[STATE] = control[OTHER];
    control[OTHER] = swap;
  }
  control[STEP] += 1;
  control[BEST] = control[ACTIVE] = control[WAITS] = control[TOTAL] = control[SQUARES] = 0;
}

// Likelihood weighting: a particle whose weight is NaN has not run yet.
#ifdef HAS_MAIN
KERNEL void run_all(i64* control) {
  i64 n = control[PARTICLES];
  i64 p = (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (p >= n) return;
  double* logw = (double*)control[LOGW];
  if (logw[p] == logw[p]) return;
  Context ctx;
  load_context(ctx, control, p);
  i64 start = ctx.heap;
  i64 status = cuppl_run_once(ctx, (i64)control, p);
  if (status == 1 && cuppl_next_chunk(ctx, (i64)control)) {
    start = ctx.heap;
    status = cuppl_run_once(ctx, (i64)control, p);
  }
  if (!control[KEEP]) ctx.heap = start;
  save_heap(ctx, control, p);
  if (status == 0) logw[p] = ctx.weight;
  else if (status == 14) logw[p] = float_of_bits((i64)0xFFF0000000000000ull);
  else if (status <= 3) {
    atomicOr((u64*)control + WAITS, 1ull << status);
    control[FAILED_SITE] = ctx.site;
    control[FAILED_PARTICLE] = p;
  } else note_failure(control, ctx, p, status);
}
#endif

// One thread moves what is alive to a new heap. Rare: the heap doubles each time.
KERNEL void move_heap(i64* control) {
  if (threadIdx.x != 0) return;
  Context ctx;
  ctx.heap = control[TARGET];
#ifdef HAS_MACHINE
  cuppl_collect(ctx, control[STATE], control[PARTICLES], control[HEADER], control[LOW],
                control[HIGH], control[OBJECTS], control[FRAMES]);
#else
  cuppl_collect_results(ctx, control[STATE], control[ROWS], control[MASK], control[PARTICLES],
                        control[LOW], control[HIGH], control[OBJECTS]);
#endif
  control[TARGET] = ctx.heap;
}
