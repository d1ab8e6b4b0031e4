// The kernels of sequential Monte Carlo. `control` is the control block, whose words up to 31 are
// those of the CPU's driver. All decisions are taken on the device from integer sums, which do not
// depend on the order of the threads.

// Sum over a block; every thread must call it.
DEVICE u64 block_sum(u64 value, u64* shared) {
  value = warp_sum(value);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  u64 total = 0;
  for (int warp = 0; warp < BLOCK / WARP; ++warp) total += shared[warp];
  __syncthreads();
  return total;
}

DEVICE u64 block_max(u64 value, u64* shared) {
  value = warp_max(value);
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  u64 top = 0;
  for (int warp = 0; warp < BLOCK / WARP; ++warp)
    if (shared[warp] > top) top = shared[warp];
  __syncthreads();
  return top;
}

// Sum over this thread and those before it; every thread must call it.
DEVICE u64 block_prefix(u64 value, u64* shared) {
  value = warp_prefix(value);
  if (threadIdx.x % WARP == WARP - 1) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  for (int warp = 0; warp < (int)threadIdx.x / WARP; ++warp) value += shared[warp];
  __syncthreads();
  return value;
}

#ifdef HAS_MACHINE
// Run all particles to their next suspension (`deep` 0), then those that need larger stacks (1).
KERNEL void advance(i64* control, i64 deep) {
  SHARED u64 shared[BLOCK / WARP];
  if (control[OUTCOME] != RUNNING || (deep && control[DEEP] == 0)) return;
  Tally tally = {0, 0};
  cuppl_turns(control, deep, tally);
  u64 best = block_max(tally.best, shared), active = block_sum(tally.active, shared);
  if (threadIdx.x == 0) {
    atomicMax((u64*)control + BEST, best);
    atomicAdd((u64*)control + ACTIVE, active);
  }
}
#endif

// What came of a step: whether a particle failed, what particles wait for, how many have not
// finished, and of the weights the largest, their sum and that of their squares.
struct Outcome {
  i64 failed, waits, active, best, sum, squares;
};

DEVICE Outcome outcome_of(const i64* control) {
  volatile const i64* now = control;
  return {now[FAILED_STATUS], now[WAITS] | now[DEEP], now[ACTIVE], now[BEST], now[TOTAL],
          now[SQUARES]};
}

// One thread: how the step ended, and whether to resample. All is read before anything is written.
DEVICE void decide(i64* control, const Outcome& seen) {
  volatile const i64* now = control;
  i64 resampled = now[RESAMPLED];
  double scale = float_of_bits(now[SCALE]), threshold = float_of_bits(now[THRESHOLD]);
  double evidence = float_of_bits(now[LOG_Z]), n = (double)ALL_OF(now);
  double top = unordered((u64)seen.best);
  i64 outcome = seen.failed != 0                                     ? FAILED
                : seen.waits != 0                                    ? NEED_ROOM
                : bits_of(top) == (i64)0xFFF0000000000000ull         ? DEAD
                : seen.active == 0                                   ? FINISHED
                                                                     : RUNNING;
  double total = (double)(u64)seen.sum / scale, squares = (double)(u64)seen.squares / scale;
  bool resampling = outcome == RUNNING && total * total < threshold * squares;
  control[OUTCOME] = outcome;
  control[RESAMPLING] = resampling;
  if (!resampling) return;
  Context ctx;
  ctx.key0 = now[SEED_LOW];
  ctx.key1 = now[SEED_HIGH];
  ctx.particle = 0;
  ctx.step = now[STEP];
  ctx.stream = now[STREAM] + 1;
  ctx.draw = 0;
  control[POINT] = bits_of(cuppl_next_uniform(ctx));
  control[LOG_Z] = bits_of(evidence + top + cuppl_log(ctx, total / n));
  control[RESAMPLED] = resampled + 1;
}

// One block: get ready for the next step.
DEVICE void turn(i64* control) {
  i64 blocks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  for (i64 g = threadIdx.x; g <= blocks / BLOCK; g += BLOCK) ((u64*)control[SUPERS])[g] = 0;
  if (threadIdx.x != 0) return;
  if (control[RESAMPLING]) {
    i64 base = control[BASE] - control[GAP];
    control[BASE] = base < 0 ? base + control[PHYSICAL] : base;
  }
  control[STEP] += 1;
  control[BEST] = control[ACTIVE] = control[WAITS] = control[TOTAL] = control[SQUARES] = 0;
  control[NEXT] = control[NEXT + 1] = control[DEEP] = 0;
  control[SPILLERS] = control[SPILL_WORDS] = control[POOL_NEXT] = control[BARRIER] = 0;
}

// Integer weights of a chunk, relative to the largest, and their sum; the sums of chunks and of
// groups of BLOCK chunks are kept.
DEVICE u64 weigh(i64* control, i64 chunk, double top, u64* shared, u64& squares) {
  i64 p = chunk * BLOCK + threadIdx.x;
  double scale = float_of_bits(control[SCALE]);
  u64 weight = 0;
  if (p < control[PARTICLES]) {
    Context ctx;
    double w = cuppl_exp(ctx, ((const double*)control[LOGW])[p] - top);
    weight = (u64)truncate(w * scale + 0.5);
    squares += (u64)truncate(w * w * scale + 0.5);
    ((u64*)control[WEIGHTS])[p] = weight;
  }
  u64 total = block_sum(weight, shared);
  if (threadIdx.x == 0) {
    ((u64*)control[CHUNKS])[chunk] = total;
    atomicAdd((u64*)control[SUPERS] + chunk / BLOCK, total);
  }
  return total;
}

// The last block that comes here decides how the step goes on; the others wait for that. Whether to
// resample. No more blocks may be launched than run at once.
DEVICE bool decide_together(i64* control, i64 step, bool* last, bool* resampling) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    volatile i64* now = control;
    *last = atomicAdd((u64*)control + BARRIER, 1ull) == gridDim.x - 1;
    if (*last) {
      decide(control, outcome_of(control));
      __threadfence();
      now[DECIDED] = step + 1;
    }
    while (now[DECIDED] <= step) {}
    __threadfence();
    *resampling = now[RESAMPLING] != 0;
  }
  __syncthreads();
  return *resampling;
}

// For each particle of a chunk, how many of the equidistant points lie below the end of its weight:
// these numbers take the place of the weights.
DEVICE void count_children(i64* control, i64 chunk, u64* shared) {
  i64 n = control[PARTICLES];
  i64 p = chunk * BLOCK + threadIdx.x;
  i64 group = chunk / BLOCK, member = chunk % BLOCK;
  u64 before = 0;
  for (i64 g = threadIdx.x; g < group; g += BLOCK) before += ((u64*)control[SUPERS])[g];
  if ((i64)threadIdx.x < member) before += ((u64*)control[CHUNKS])[group * BLOCK + threadIdx.x];
  before = block_sum(before, shared);
  u64 until = block_prefix(p < n ? ((u64*)control[WEIGHTS])[p] : 0, shared);
  if (p < n) {
    Context ctx;
    i64 cumulative = SUM_BEFORE_OF(control) + (i64)(before + until);
    ((i64*)control[WEIGHTS])[p] = cuppl_offspring_before(
        ctx, cumulative, SUM_OF(control), ALL_OF(control), float_of_bits(control[POINT]));
  }
}

// The first particle of a range whose children end behind a slot.
DEVICE i64 parent_of(const i64* control, i64 slot, i64 low, i64 high) {
  const i64* last = (const i64*)control[WEIGHTS];
  while (low < high) {
    i64 middle = (low + high) >> 1;
#ifdef HAS_SHARES
    i64 there = middle;
    last = (const i64*)home_of(control, there)[WEIGHTS];
    i64 end = last[there];
#else
    i64 end = last[middle];
#endif
    if (end > slot) high = middle; else low = middle + 1;
  }
  return low;
}

// Each slot finds its parent by bisection: first those of the chunk's ends, then between them. The
// parents take the place of the weights' logarithms, which are known to be 0 now.
DEVICE void find_parents(i64* control, i64 chunk, i64* ends) {
  i64 n = control[PARTICLES], start = chunk * BLOCK;
  i64 stop = start + BLOCK < n ? start + BLOCK : n, first = FIRST_OF(control);
  i64 child = start + threadIdx.x;
  if (threadIdx.x < 2)
    ends[threadIdx.x] =
        parent_of(control, first + (threadIdx.x ? stop - 1 : start), 0, ALL_OF(control) - 1);
  __syncthreads();
  if (child < n) ((i64*)control[LOGW])[child] = parent_of(control, first + child, ends[0], ends[1]);
  __syncthreads();
}

#ifdef HAS_MACHINE
// Some rows of a chunk's slots are their parents'. Later passes overwrite the rows that earlier ones
// read.
DEVICE void copy_rows(i64* control, i64 chunk, i64 pass) {
  i64 n = control[PARTICLES], child = chunk * BLOCK + threadIdx.x;
  i64 gap = control[GAP], rows = control[ROWS], from = control[BASE], first = pass * gap;
  if (child >= n) return;
  i64 to = from >= gap ? from - gap : from - gap + control[PHYSICAL];
  i64 parent = ((const i64*)control[LOGW])[child];
  const i64* home = home_of(control, parent);
  i64 words = (pass ? row_at(control, to, 0)[child] : row_at(home, from, 0)[parent]) & TOP_MASK;
  if (words > rows) words = rows;
  if (words > first + gap) words = first + gap;
  for (i64 word = first; word < words; ++word)
    row_at(control, to, word)[child] = row_at(home, from, word)[parent];
  if (first + gap >= rows) ((double*)control[LOGW])[child] = 0.0;
}

// Wait for all blocks, of which no more may be launched than run at once. No line that another block
// writes before has been read by this one.
DEVICE void grid_barrier(i64* control) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    u64 round = atomicAdd((u64*)control + BARRIER, 1ull) / gridDim.x;
    volatile u64* arrived = (u64*)control + BARRIER;
    while (*arrived < (round + 1) * gridDim.x) {}
    __threadfence();
  }
  __syncthreads();
}

// The end of a step: weights, and if they are too uneven, the slots' parents and their rows.
SMALL_KERNEL void resample(i64* control) {
  SHARED u64 shared[BLOCK / WARP];
  SHARED i64 ends[2];
  SHARED bool last, resampling;
  i64 outcome = control[OUTCOME], waits = control[WAITS] | control[DEEP] | control[FAILED_STATUS];
  i64 step = control[STEP], chunks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  i64 passes = (control[ROWS] + control[GAP] - 1) / control[GAP];
  if (outcome != RUNNING) return;
  if (waits != 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) decide(control, outcome_of(control));
    return;
  }
  double top = unordered((u64)control[BEST]);
  u64 total = 0, squares = 0;
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x)
    total += weigh(control, c, top, shared, squares);
  squares = block_sum(squares, shared);
  if (threadIdx.x == 0) {
    atomicAdd((u64*)control + TOTAL, total);
    atomicAdd((u64*)control + SQUARES, squares);
  }
  if (!decide_together(control, step, &last, &resampling)) {
    if (last && control[OUTCOME] == RUNNING) turn(control);
    return;
  }
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x) count_children(control, c, shared);
  grid_barrier(control);
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x) find_parents(control, c, ends);
  for (i64 pass = 0; pass < passes; ++pass) {
    if (pass) grid_barrier(control);
    for (i64 c = blockIdx.x; c < chunks; c += gridDim.x) copy_rows(control, c, pass);
  }
  if (is_last_block(control, &last)) turn(control);
}
#endif

// Likelihood weighting: a particle whose weight is NaN has not run yet.
#ifdef HAS_MAIN
KERNEL void run_all(i64* control) {
  i64 n = control[PARTICLES], threads = (i64)gridDim.x * BLOCK;
  i64 thread = (i64)blockIdx.x * BLOCK + threadIdx.x;
  double* logw = (double*)control[LOGW];
  Context ctx;
  load_context(ctx, control, thread);
  for (i64 p = thread; p < n && !failed_before(control, p); p += threads) {
    if (logw[p] == logw[p]) continue;
    i64 start = ctx.heap;
    i64 status = cuppl_run_once(ctx, (i64)control, p);
    if (status == HEAP_FULL && cuppl_next_chunk(ctx, (i64)control)) {
      start = ctx.heap;
      status = cuppl_run_once(ctx, (i64)control, p);
    }
    if (!control[KEEP]) ctx.heap = start;
    if (status == 0) logw[p] = ctx.weight;
    else if (status == REJECTED) logw[p] = MINUS_INFINITY;
    else if (status <= 3) note_wait(control, ctx, p, status);
    else note_failure(control, ctx, p, status);
  }
  save_heap(ctx, control, thread);
}
#endif
