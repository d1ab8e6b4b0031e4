// Particles on several devices. Each has a share of them, with a control block and rows of its own, and
// reads what it needs of the others'. From the same sums all take the same decisions, which are those
// of one device with all particles. `Shares` in `shares.py` lets devices wait for each other between
// these kernels. Nothing that one device reads of another is written between the same two waits.
#ifdef HAS_MACHINE
DEVICE Outcome outcome_of_all(const i64* control) {
  Outcome all = {0, 0, 0, 0, 0, 0};
  for (i64 share = 0; share < control[SHARES]; ++share) {
    Outcome one = outcome_of(((const i64* const*)control[CONTROLS])[share]);
    all.failed |= one.failed;
    all.waits |= one.waits;
    all.active += one.active;
    all.sum += one.sum;
    all.squares += one.squares;
    if ((u64)one.best > (u64)all.best) all.best = one.best;
  }
  return all;
}

// After `advance`: integer weights, relative to the largest of all shares.
SMALL_KERNEL void weigh_share(i64* control) {
  SHARED u64 shared[BLOCK / WARP];
  SHARED Outcome seen;
  if (control[OUTCOME] != RUNNING) return;
  if (threadIdx.x == 0) seen = outcome_of_all(control);
  __syncthreads();
  if ((seen.waits | seen.failed) != 0) return;
  double top = unordered((u64)seen.best);
  i64 chunks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  u64 total = 0, squares = 0;
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x)
    total += weigh(control, c, top, shared, squares);
  squares = block_sum(squares, shared);
  if (threadIdx.x != 0) return;
  atomicAdd((u64*)control + TOTAL, total);
  atomicAdd((u64*)control + SQUARES, squares);
}

// One thread: the decision of all devices, and where this one's weights begin.
SMALL_KERNEL void decide_share(i64* control) {
  if (threadIdx.x != 0 || control[OUTCOME] != RUNNING) return;
  i64 before = 0;
  for (i64 share = 0; share < control[FIRST] / control[SHARE_SIZE]; ++share)
    before += ((const i64* const*)control[CONTROLS])[share][TOTAL];
  Outcome seen = outcome_of_all(control);
  control[SUM_BEFORE] = before;
  control[SUM_OF_ALL] = seen.sum;
  decide(control, seen);
}

SMALL_KERNEL void count_share(i64* control) {
  SHARED u64 shared[BLOCK / WARP];
  if (control[OUTCOME] != RUNNING || !control[RESAMPLING]) return;
  i64 chunks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x) count_children(control, c, shared);
}

// Some rows of the slots of this share.
SMALL_KERNEL void copy_share(i64* control, i64 pass) {
  SHARED i64 ends[2];
  if (control[OUTCOME] != RUNNING || !control[RESAMPLING]) return;
  i64 chunks = (control[PARTICLES] + BLOCK - 1) / BLOCK;
  for (i64 c = blockIdx.x; c < chunks; c += gridDim.x) {
    if (pass == 0) find_parents(control, c, ends);
    copy_rows(control, c, pass);
  }
}

// One block, once all devices have come here.
SMALL_KERNEL void turn_share(i64* control) {
  if (control[OUTCOME] == RUNNING) turn(control);
}
#endif
