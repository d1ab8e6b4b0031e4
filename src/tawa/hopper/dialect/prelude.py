"""CUDA C++ definitions of Hopper's instructions, printed only when a kernel uses them.

One function an instruction (PTX ISA 9.0); none of them decides anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


def _asm(signature: str, text: str, constraints: str) -> str:
    return (
        f"__device__ __forceinline__ void {signature} {{\n"
        f'  asm volatile("{text}"{constraints});\n}}\n'
    )


def _tma_load(rank: int, multicast: bool, hint: bool = False) -> str:
    coordinates = ", ".join(f"int c{i}" for i in range(rank))
    places = ", ".join(f"%{i + 3}" for i in range(rank))
    values = ", ".join(f'"r"(c{i})' for i in range(rank))
    name, more, suffix, extra = "tma_load", "", "", ""
    if multicast:
        name, more, suffix = "tma_load_multicast", ", u16 ctas", ".multicast::cluster"
        values, extra = values + ', "h"(ctas)', f", %{rank + 3}"
    if hint:
        name, more, suffix = f"{name}_hint", f"{more}, u64 policy", f"{suffix}.L2::cache_hint"
        values, extra = values + ', "l"(policy)', f"{extra}, %{rank + 3 + multicast}"
    return _asm(
        f"{name}(u32 tile, const TensorMap* map, u32 barrier, {coordinates}{more})",
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{suffix} "
        f"[%0], [%1, {{{places}}}], [%2]{extra};",
        f' :: "r"(tile), "l"(map), "r"(barrier), {values} : "memory"',
    )


def _tma_store(rank: int, hint: bool) -> str:
    coordinates = ", ".join(f"int c{i}" for i in range(rank))
    places = ", ".join(f"%{i + 2}" for i in range(rank))
    values = ", ".join(f'"r"(c{i})' for i in range(rank))
    name, suffix, extra = "tma_store", "", ""
    if hint:
        name, suffix, extra = "tma_store_evict_first", ".L2::cache_hint", f", %{rank + 2}"
        values += ', "l"(0x12F0000000000000ull)'
    return _asm(
        f"{name}(const TensorMap* map, u32 tile, {coordinates})",
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group{suffix} "
        f"[%0, {{{places}}}], [%1]{extra};",
        f' :: "l"(map), "r"(tile), {values} : "memory"',
    )


def _tma_reduce(rank: int, _: bool) -> str:
    coordinates = ", ".join(f"int c{i}" for i in range(rank))
    places = ", ".join(f"%{i + 2}" for i in range(rank))
    values = ", ".join(f'"r"(c{i})' for i in range(rank))
    return _asm(
        f"tma_reduce_add(const TensorMap* map, u32 tile, {coordinates})",
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.bulk_group "
        f"[%0, {{{places}}}], [%1];",
        f' :: "l"(map), "r"(tile), {values} : "memory"',
    )


def _tma(make: Callable[[int, bool], str], flag: bool) -> str:
    return "".join(make(rank, flag) for rank in range(1, 6))


HOPPER_PRELUDE: dict[str, str] = {
    "shared_address": """\
__device__ __forceinline__ u32 shared_address(const void* p) {
  return u32(__cvta_generic_to_shared(p));
}
""",
    "mbarrier_init": _asm(
        "mbarrier_init(u32 barrier, u32 arrivals)",
        "mbarrier.init.shared::cta.b64 [%0], %1;",
        ' :: "r"(barrier), "r"(arrivals) : "memory"',
    ),
    "fence_barrier_init": _asm(
        "fence_barrier_init()", "fence.mbarrier_init.release.cluster;", ' ::: "memory"'
    ),
    "mbarrier_expect": _asm(
        "mbarrier_expect(u32 barrier, u32 bytes)",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
        ' :: "r"(barrier), "r"(bytes) : "memory"',
    ),
    "mbarrier_arrive": _asm(
        "mbarrier_arrive(u32 barrier)",
        "mbarrier.arrive.shared::cta.b64 _, [%0];",
        ' :: "r"(barrier) : "memory"',
    ),
    "mbarrier_arrive_remote": """\
__device__ __forceinline__ void mbarrier_arrive_remote(u32 barrier, u32 cta) {
  asm volatile("{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
               "mbarrier.arrive.shared::cluster.b64 _, [remote];}"
               :: "r"(barrier), "r"(cta) : "memory");
}
""",
    "mbarrier_wait": """\
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile("{\\n.reg .pred done;\\n"
               "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
               "@done bra DONE;\\nbra AGAIN;\\nDONE:\\n}" :: "r"(barrier), "r"(parity) : "memory");
}
""",
    "tma_load": _tma(_tma_load, False),
    "tma_load_multicast": _tma(_tma_load, True),
    "tma_load_hint": _tma(partial(_tma_load, hint=True), False),
    "tma_load_multicast_hint": _tma(partial(_tma_load, hint=True), True),
    "tma_store": _tma(_tma_store, False),
    "tma_store_evict_first": _tma(_tma_store, True),
    "tma_reduce_add": _tma(_tma_reduce, False),
    "prefetch_tensormap": _asm(
        "prefetch_tensormap(const TensorMap* map)",
        "prefetch.tensormap [%0];",
        ' :: "l"(map) : "memory"',
    ),
    "bulk_commit": _asm("bulk_commit()", "cp.async.bulk.commit_group;", ' ::: "memory"'),
    "bulk_wait_read": "template <int pending> "
    + _asm(
        "bulk_wait_read()",
        "cp.async.bulk.wait_group.read %0;",
        ' :: "n"(pending) : "memory"',
    ),
    "bulk_wait": "template <int pending> "
    + _asm("bulk_wait()", "cp.async.bulk.wait_group %0;", ' :: "n"(pending) : "memory"'),
    "grid_wait": _asm("grid_wait()", "griddepcontrol.wait;", ' ::: "memory"'),
    "grid_release": _asm("grid_release()", "griddepcontrol.launch_dependents;", ' ::: "memory"'),
    "fence_proxy_global": _asm(
        "fence_proxy_global()", "fence.proxy.async.global;", ' ::: "memory"'
    ),
    "fence_proxy_async": _asm(
        "fence_proxy_async()", "fence.proxy.async.shared::cta;", ' ::: "memory"'
    ),
    "copy_async": """\
template <int bytes, typename T>
__device__ __forceinline__ void copy_async(u32 to, const T* from, bool wanted) {
  const u32 count = wanted ? bytes : 0;
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(from), "r"(count) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(to), "l"(from), "n"(bytes), "r"(count) : "memory");
  }
}
""",
    "copy_arrive": _asm(
        "copy_arrive(u32 barrier)",
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];",
        ' :: "r"(barrier) : "memory"',
    ),
    "named_barrier_sync": _asm(
        "named_barrier_sync(int id, int threads)",
        "bar.sync %0, %1;",
        ' :: "r"(id), "r"(threads) : "memory"',
    ),
    "named_barrier_arrive": _asm(
        "named_barrier_arrive(int id, int threads)",
        "bar.arrive %0, %1;",
        ' :: "r"(id), "r"(threads) : "memory"',
    ),
    "cluster_sync": _asm(
        "cluster_sync()",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        ' ::: "memory"',
    ),
    "cluster_rank": """\
__device__ __forceinline__ i32 cluster_rank() {
  i32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
""",
    "set_registers_down": "template <int count> "
    + _asm(
        "set_registers_down()",
        "setmaxnreg.dec.sync.aligned.u32 %0;",
        ' :: "n"(count)',
    ),
    "set_registers_up": "template <int count> "
    + _asm(
        "set_registers_up()",
        "setmaxnreg.inc.sync.aligned.u32 %0;",
        ' :: "n"(count)',
    ),
    "wgmma_fence": _asm("wgmma_fence()", "wgmma.fence.sync.aligned;", ' ::: "memory"'),
    "wgmma_commit": _asm("wgmma_commit()", "wgmma.commit_group.sync.aligned;", ' ::: "memory"'),
    "wgmma_wait": "template <int pending> "
    + _asm("wgmma_wait()", "wgmma.wait_group.sync.aligned %0;", ' :: "n"(pending) : "memory"'),
    "pin": """\
template <int count> __device__ __forceinline__ void pin(f32 (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(registers[i]) :: "memory");
}
template <int count> __device__ __forceinline__ void pin(i32 (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(registers[i]) :: "memory");
}
template <int count> __device__ __forceinline__ void pin(u32 (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(registers[i]) :: "memory");
}
template <int count> __device__ __forceinline__ void pin(f16 (&pairs)[count]) {
  pin((u32 (&)[count / 2])pairs);
}
""",
    "matrix_desc": """\
__device__ __forceinline__ u64 matrix_desc(u32 tile, u32 lbo, u32 sbo, u32 swizzle) {
  u64 start = (tile & 0x3FFFF) >> 4;
  return start | u64(lbo >> 4) << 16 | u64(sbo >> 4) << 32 | u64(swizzle) << 62;
}
""",
    "tile_address": """\
template <int swizzle, int panel_bytes, int panel_stride>
__device__ __forceinline__ u32 tile_address(u32 tile, int row, int byte) {
  u32 offset = row * panel_bytes + byte % panel_bytes;
  if constexpr (swizzle > 16) offset ^= ((offset >> 7) & (swizzle / 16 - 1)) << 4;
  return tile + byte / panel_bytes * panel_stride + offset;
}
""",
    "stmatrix": """\
__device__ __forceinline__ void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
""",
    "ldmatrix_transposed": """\
__device__ __forceinline__ void ldmatrix_transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
}
""",
    "stmatrix_transposed": """\
__device__ __forceinline__ void stmatrix_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
""",
    "pair": """\
template <class T> __device__ __forceinline__ u32 pair(T low, T high) {
  return u32(low.bits) | u32(high.bits) << 16;
}
""",
    "pack": """\
template <class T> __device__ __forceinline__ u32 pack(T low, T high) {
  u32 word;
  asm("mov.b32 %0, {%1, %2};" : "=r"(word) : "h"(bit_cast<u16>(low)), "h"(bit_cast<u16>(high)));
  return word;
}
""",
    "unpack": """\
template <class T> __device__ __forceinline__ void unpack(u32 word, T& low, T& high) {
  u16 bits[2];
  asm("mov.b32 {%0, %1}, %2;" : "=h"(bits[0]), "=h"(bits[1]) : "r"(word));
  low = bit_cast<T>(bits[0]);
  high = bit_cast<T>(bits[1]);
}
template <class T> __device__ __forceinline__ void unpack(u32 word, T& a, T& b, T& c, T& d) {
  a = bit_cast<T>(u8(word)), b = bit_cast<T>(u8(word >> 8));
  c = bit_cast<T>(u8(word >> 16)), d = bit_cast<T>(u8(word >> 24));
}
""",
    "round_pair": """\
__device__ __forceinline__ void round_pair(f16& low, f16& high, f32 a, f32 b) {
  asm("{.reg .b32 t; cvt.rn.f16x2.f32 t, %3, %2; mov.b32 {%0, %1}, t;}"
      : "=h"(low.bits), "=h"(high.bits) : "f"(a), "f"(b));
}
__device__ __forceinline__ void round_pair(bf16& low, bf16& high, f32 a, f32 b) {
  asm("{.reg .b32 t; cvt.rn.bf16x2.f32 t, %3, %2; mov.b32 {%0, %1}, t;}"
      : "=h"(low.bits), "=h"(high.bits) : "f"(a), "f"(b));
}
""",
    # Four numbers of 8 bits as one word, where each by itself would be cut out and put in.
    "round_four": """\
template <class T> __device__ __forceinline__ void round_four(T* to, const f32* x) {
  const u32 word = round_quad<T>(x[0], x[1], x[2], x[3]);
  memcpy(to, &word, 4);
}
""",
    "widen_four": """\
template <class T> __device__ __forceinline__ void widen_four(T* to, const e4m3* x) {
  u32 word, low, high;
  memcpy(&word, x, 4);
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(low) : "h"(u16(word)));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(high) : "h"(u16(word >> 16)));
  from_halves(to, low, high);
}
template <class T> __device__ __forceinline__ void widen_four(T* to, const e5m2* x) {
  u32 word;
  memcpy(&word, x, 4);
  from_halves(to, __byte_perm(word, 0, 0x1404), __byte_perm(word, 0, 0x3424));
}
""",
    "from_halves": """\
__device__ __forceinline__ void from_halves(f16* to, u32 low, u32 high) {
  const u32 words[] = {low, high};
  memcpy(to, words, 8);
}
__device__ __forceinline__ void from_halves(f32* to, u32 low, u32 high) {
  f16 halves[4];
  from_halves(halves, low, high);
  for (int i = 0; i < 4; ++i) to[i] = to_float(halves[i]);
}
""",
    # A byte as the last of a significand, from which what stands before it is taken: 2 instructions
    # a byte, where each by itself takes 6. All 256 fit f16's; of bf16's, whose significand holds
    # half of them, the byte's highest bit decides what is taken away.
    "join_bytes": """\
__device__ __forceinline__ u32 join_bytes(const i8* x) {
  u32 word;
  memcpy(&word, x, 4);
  return word;
}
""",
    "take_away": """\
__device__ __forceinline__ void take_away(f16* to, u32 x, u32 y) {
  asm("{.reg .b32 t; sub.rn.f16x2 t, %2, %3; mov.b32 {%0, %1}, t;}"
      : "=h"(to[0].bits), "=h"(to[1].bits) : "r"(x), "r"(y));
}
__device__ __forceinline__ void take_away(bf16* to, u32 x, u32 y) {
  asm("{.reg .b32 t; sub.rn.bf16x2 t, %2, %3; mov.b32 {%0, %1}, t;}"
      : "=h"(to[0].bits), "=h"(to[1].bits) : "r"(x), "r"(y));
}
""",
    "widen_bytes": """\
__device__ __forceinline__ void widen_bytes(f16* to, const i8* x) {
  const u32 bytes = join_bytes(x) ^ 0x80808080u;
  take_away(to, __byte_perm(bytes, 0x64646464u, 0x4140), 0x64806480u);
  take_away(to + 2, __byte_perm(bytes, 0x64646464u, 0x4342), 0x64806480u);
}
__device__ __forceinline__ void widen_pair(bf16* to, u32 x) {
  take_away(to, x & 0xff7fff7fu, x & 0xff80ff80u);
}
__device__ __forceinline__ void widen_bytes(bf16* to, const i8* x) {
  const u32 bytes = join_bytes(x);
  widen_pair(to, __byte_perm(bytes, 0x43434343u, 0x4140));
  widen_pair(to + 2, __byte_perm(bytes, 0x43434343u, 0x4342));
}
""",
    "widen_unsigned_bytes": """\
__device__ __forceinline__ void widen_unsigned_bytes(f16* to, const i8* x) {
  const u32 bytes = join_bytes(x);
  take_away(to, __byte_perm(bytes, 0x64646464u, 0x4140), 0x64006400u);
  take_away(to + 2, __byte_perm(bytes, 0x64646464u, 0x4342), 0x64006400u);
}
__device__ __forceinline__ void widen_unsigned_pair(bf16* to, u32 x) {
  take_away(to, x & 0xff7fff7fu, (~x & 0x00800080u) * 0x86u);
}
__device__ __forceinline__ void widen_unsigned_bytes(bf16* to, const i8* x) {
  const u32 bytes = join_bytes(x);
  widen_unsigned_pair(to, __byte_perm(bytes, 0x43434343u, 0x4140));
  widen_unsigned_pair(to + 2, __byte_perm(bytes, 0x43434343u, 0x4342));
}
""",
    "shared_store": """\
template <class T> __device__ __forceinline__ void shared_store(u32 address, T value) {
  *reinterpret_cast<T*>(__cvta_shared_to_generic(address)) = value;
}
""",
    "shared_load": """\
template <class T> __device__ __forceinline__ T shared_load(u32 address) {
  return *reinterpret_cast<const T*>(__cvta_shared_to_generic(address));
}
""",
    "store_words": """\
__device__ __forceinline__ void store_words(void* pointer, u32 a, u32 b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" :: "l"(pointer), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void store_words(void* pointer, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :: "l"(pointer), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void store_words(void* pointer, u64 a) {
  asm volatile("st.global.b64 [%0], %1;" :: "l"(pointer), "l"(a) : "memory");
}
__device__ __forceinline__ void store_words(void* pointer, u64 a, u64 b) {
  asm volatile("st.global.v2.b64 [%0], {%1, %2};" :: "l"(pointer), "l"(a), "l"(b) : "memory");
}
""",
    "store_words_where": """\
__device__ __forceinline__ void store_words_where(bool kept, void* pointer, u32 a, u32 b) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; @p st.global.v2.b32 [%0], {%1, %2};}"
               :: "l"(pointer), "r"(a), "r"(b), "r"(u32(kept)) : "memory");
}
__device__ __forceinline__ void store_words_where(
    bool kept, void* pointer, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4};}"
               :: "l"(pointer), "r"(a), "r"(b), "r"(c), "r"(d), "r"(u32(kept)) : "memory");
}
__device__ __forceinline__ void store_words_where(bool kept, void* pointer, u64 a) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.b64 [%0], %1;}"
               :: "l"(pointer), "l"(a), "r"(u32(kept)) : "memory");
}
__device__ __forceinline__ void store_words_where(bool kept, void* pointer, u64 a, u64 b) {
  asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; @p st.global.v2.b64 [%0], {%1, %2};}"
               :: "l"(pointer), "l"(a), "l"(b), "r"(u32(kept)) : "memory");
}
""",
    "vote_any": """\
__device__ __forceinline__ bool vote_any(bool value) {
  return __any_sync(0xffffffffu, value);
}
""",
    "elected": """\
__device__ __forceinline__ bool elected() {
  u32 first;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(first));
  return first;
}
""",
    "rejoin": """\
__device__ __forceinline__ void rejoin() {
  asm volatile("" ::: "memory");
}
""",
    "warp_uniform": """\
__device__ __forceinline__ int warp_uniform(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}
""",
    "shuffle_xor": """\
template <class T> __device__ __forceinline__ T shuffle_xor(T value, int mask) {
  if constexpr (sizeof(T) >= 4) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  } else {
    union { T small; u32 word; } both;
    both.word = 0;
    both.small = value;
    both.word = __shfl_xor_sync(0xffffffffu, both.word, mask);
    return both.small;
  }
}
template <class T> __device__ __forceinline__ T* shuffle_xor(T* value, int mask) {
  return (T*)__shfl_xor_sync(0xffffffffu, (u64)value, mask);
}
""",
    "round_word": """\
template <class T> __device__ u32 round_word(f32 a, f32 b);
template <> __device__ __forceinline__ u32 round_word<f16>(f32 a, f32 b) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(a), "f"(b));
  return y;
}
template <> __device__ __forceinline__ u32 round_word<bf16>(f32 a, f32 b) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(a), "f"(b));
  return y;
}
""",
    "round_quad": """\
template <class T> __device__ u32 round_quad(f32 a, f32 b, f32 c, f32 d);
template <> __device__ __forceinline__ u32 round_quad<e4m3>(f32 a, f32 b, f32 c, f32 d) {
  u32 y;
  asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; "
      "cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; mov.b32 %0, {l, h};}"
      : "=r"(y) : "f"(a), "f"(b), "f"(c), "f"(d));
  return y;
}
template <> __device__ __forceinline__ u32 round_quad<e5m2>(f32 a, f32 b, f32 c, f32 d) {
  u32 y;
  asm("{.reg .b16 l, h; cvt.rn.satfinite.e5m2x2.f32 l, %2, %1; "
      "cvt.rn.satfinite.e5m2x2.f32 h, %4, %3; mov.b32 %0, {l, h};}"
      : "=r"(y) : "f"(a), "f"(b), "f"(c), "f"(d));
  return y;
}
""",
    "quad": """\
template <class T> __device__ __forceinline__ u32 quad(const T* bytes) {
  union { T small; unsigned char byte; } both[4];
  for (int i = 0; i < 4; ++i) both[i].small = bytes[i];
  return both[0].byte | both[1].byte << 8 | both[2].byte << 16 | u32(both[3].byte) << 24;
}
""",
    "Vector": """\
template <class T, int count> struct alignas(sizeof(T) * count) Vector { T values[count]; };
""",
}
"""Name of each function -> its definitions."""
