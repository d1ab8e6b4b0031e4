// Chains of NUTS or HMC: a lane runs what a thread of the CPU runs (`natives/nuts.py`), or all
// lanes of a warp do, for one chain (TOGETHER).
//
// Where a chain has one lane, a warp has few chains, so that none of them waits long for the others:
// there are more warps than the device runs at once before a warp gets a second one.
//
// Where it has a warp, the warps of a block meet at each leapfrog step (`block_sync`). All threads of
// a warp take the same steps, and a thread that has none left ends: none waits for it any more.

enum {
  CHAINS = 0,    // how many
  LANES = 1,     // of each warp that have a chain
  LAST = 2,      // the iteration before which all stop
  LEARNING = 3,  // whether moments are taken
  KEPT = 4,      // the iteration from which draws are kept; -1: none
  INPUTS = 5, METERS = 6, SAMPLERS = 7, OWN = 8, HEAPS = 9, HEAP_WORDS = 10
};
enum {
  SEED_LOW = 0, SEED_HIGH = 1, FIRST = 2,  // the next iteration
  WANTED = 3,                              // whether a step size is looked for
  ENDED = 4, STATUS = 5, SITE = 6, DENSITY = 7, OWN_WORDS = 8
};

DEVICE void begin_chain(Context& ctx, const i64* control, const i64* own, i64 chain) {
  ctx = Context();
  ctx.key0 = own[SEED_LOW];
  ctx.key1 = own[SEED_HIGH];
  ctx.inputs = control[INPUTS];
  ctx.heap_start = control[HEAPS] + 16 * control[HEAP_WORDS] * chain;
  ctx.heap_end = ctx.heap_start + 8 * control[HEAP_WORDS];
  ctx.tape_delta = 8 * control[HEAP_WORDS];
}

enum { RUN = 0, FIND = 1, START = 2 };

// All chains up to an iteration; or those that want one look for a step size, or for a start.
CHAINS_KERNEL void run_chains(i64* control, i64 what) {
  i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x, lane = thread % WARP;
#ifdef TOGETHER
  i64 chain = thread / WARP;
  if (chain >= control[CHAINS]) return;
#else
  i64 chain = thread / WARP * control[LANES] + lane;
  if (lane >= control[LANES] || chain >= control[CHAINS]) return;
#endif
  i64* own = (i64*)control[OWN] + OWN_WORDS * chain;
  i64 meter = control[METERS] + 8 * METER_WORDS * chain;
  i64 sampler = control[SAMPLERS] + 8 * SAMPLER_WORDS * chain;
  i64 first = own[FIRST], last = control[LAST], kept = control[KEPT];
  if (what == RUN ? first >= last : !own[WANTED]) return;
  Context ctx;
  begin_chain(ctx, control, own, chain);
  i64 ended = 0, status = 0, reached = first;
  if (what == START) {
    cuppl_find_start(ctx, meter, sampler, ended, status);
  } else if (what == FIND) {
    cuppl_find_step(ctx, meter, sampler, last, ended, status);
  } else {
    kept = kept < 0 ? -1 : first - kept;
    cuppl_run_chain(
        ctx, meter, sampler, first, last, control[LEARNING], kept, ended, status, reached);
  }
#ifdef TOGETHER
  warp_sync();
  if (lane != 0) return;
#endif
  if (what == RUN) own[FIRST] = reached;
  else if (ended == 0) own[WANTED] = 0;
  own[ENDED] = ended;
  own[STATUS] = status;
  own[SITE] = ctx.site;
  own[DENSITY] = ((const i64*)((const i64*)sampler)[WORK])[2 * ((const i64*)meter)[DIMENSION]];
}
