// tawa.spec: {"entry": "small_gemm", "threads": 256, "shared_bytes": 57392, "parameters": [{"kind": "ScalarParam", "value": ["arg", 3], "type": "i32"}, {"kind": "TensorMapParam", "arg": 2, "element_type": "f16", "box": [64, 64], "block_shape": [64, 64], "swizzle": 128, "stored": true}, {"kind": "TensorMapParam", "arg": 0, "element_type": "f16", "box": [64, 64], "block_shape": [64, 64], "swizzle": 128}, {"kind": "TensorMapParam", "arg": 1, "element_type": "f16", "box": [64, 64], "block_shape": [64, 64], "swizzle": 128}], "arguments": ["a", "b", "c", "K"], "cluster": [1, 1, 1], "grid": "plain", "ctas_per_sm": 1, "apart": [["a", "c"], ["b", "c"]]}
using i1 = bool;
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };
struct alignas(64) TensorMap { char bytes[128]; };

__device__ __forceinline__ u32 shared_address(const void* p) {
  return u32(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

__device__ __forceinline__ void rejoin() {
  asm volatile("" ::: "memory");
}

__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile("{\n.reg .pred done;\n"
               "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra DONE;\nbra AGAIN;\nDONE:\n}" :: "r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ i8 add(i8 x, i8 y) { return i8(u8(x) + u8(y)); }
__device__ __forceinline__ i16 add(i16 x, i16 y) { return i16(u16(x) + u16(y)); }
__device__ __forceinline__ i32 add(i32 x, i32 y) { return i32(u32(x) + u32(y)); }
__device__ __forceinline__ i64 add(i64 x, i64 y) { return i64(u64(x) + u64(y)); }

__device__ __forceinline__ u64 matrix_desc(u32 tile, u32 lbo, u32 sbo, u32 swizzle) {
  u64 start = (tile & 0x3FFFF) >> 4;
  return start | u64(lbo >> 4) << 16 | u64(sbo >> 4) << 32 | u64(swizzle) << 62;
}

__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int pending> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}

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

template <int pending> __device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory");
}

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void round_pair(f16& low, f16& high, f32 a, f32 b) {
  asm("{.reg .b32 t; cvt.rn.f16x2.f32 t, %3, %2; mov.b32 {%0, %1}, t;}"
      : "=h"(low.bits), "=h"(high.bits) : "f"(a), "f"(b));
}
__device__ __forceinline__ void round_pair(bf16& low, bf16& high, f32 a, f32 b) {
  asm("{.reg .b32 t; cvt.rn.bf16x2.f32 t, %3, %2; mov.b32 {%0, %1}, t;}"
      : "=h"(low.bits), "=h"(high.bits) : "f"(a), "f"(b));
}

__device__ __forceinline__ void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

template <int swizzle, int panel_bytes, int panel_stride>
__device__ __forceinline__ u32 tile_address(u32 tile, int row, int byte) {
  u32 offset = row * panel_bytes + byte % panel_bytes;
  if constexpr (swizzle > 16) offset ^= ((offset >> 7) & (swizzle / 16 - 1)) << 4;
  return tile + byte / panel_bytes * panel_stride + offset;
}

template <class T> __device__ __forceinline__ u32 pair(T low, T high) {
  return u32(low.bits) | u32(high.bits) << 16;
}

__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void tma_store(const TensorMap* map, u32 tile, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];" :: "l"(map), "r"(tile), "r"(c0) : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 tile, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(tile), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 tile, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" :: "l"(map), "r"(tile), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 tile, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" :: "l"(map), "r"(tile), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap* map, u32 tile, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" :: "l"(map), "r"(tile), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void tma_load(u32 tile, const TensorMap* map, u32 barrier, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" :: "r"(tile), "l"(map), "r"(barrier), "r"(c0) : "memory");
}
__device__ __forceinline__ void tma_load(u32 tile, const TensorMap* map, u32 barrier, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(tile), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void tma_load(u32 tile, const TensorMap* map, u32 barrier, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" :: "r"(tile), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void tma_load(u32 tile, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" :: "r"(tile), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void tma_load(u32 tile, const TensorMap* map, u32 barrier, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" :: "r"(tile), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

__device__ __forceinline__ void wgmma_m64n64k16_f32_f16_f16_nn(f32* d, u64 a, u64 b, bool accumulate) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "l"(b), "r"(int(accumulate)));
}

extern "C" __global__ void __launch_bounds__(256, 1)
small_gemm(i32 K, const __grid_constant__ TensorMap c_map, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const u32 smem = shared_address(shared_memory);
  (void)smem;
  const int warp_id = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  (void)warp_id; (void)lane;
  const u32 tile_tile = smem + 0;
  const u32 tile_tile_0 = smem + 24576;
  const u32 tile_tile_full = smem + 57344;
  const u32 tile_tile_empty = smem + 57368;
  const u32 staging = smem + 49152;
  if (threadIdx.x == 0) {
    for (int s = 0; s < 3; ++s) mbarrier_init(tile_tile_full + s * 8, 1);
    for (int s = 0; s < 3; ++s) mbarrier_init(tile_tile_empty + s * 8, 1);
    fence_barrier_init();
    prefetch_tensormap(&c_map);
    prefetch_tensormap(&a_map);
    prefetch_tensormap(&b_map);
  }
  rejoin();
  __syncthreads();
  if (warp_id >= 0 && warp_id < 4) {
    // role math
    const int team = (warp_id - 0) / 4;
    const int warp = (warp_id - 0) % 4;
    const int thread = warp * 32 + lane;
    const int warp_group = 0;
    (void)team; (void)warp; (void)thread; (void)warp_group;
    {
      f32 acc[32];
      f32 acc_0[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) acc_0[i] = acc[i];
      i32 previous;
      previous = -1;
      i32 tile_tile_get_slot;
      tile_tile_get_slot = 0;
      i32 tile_tile_get_phase;
      tile_tile_get_phase = 0;
      #pragma unroll 1
      for (i32 k = 0; k < K; k += 64) {
        const i1 accumulate = k != 0;
        mbarrier_wait(tile_tile_full + tile_tile_get_slot * 8, tile_tile_get_phase);
        const u32 v_0 = tile_tile + tile_tile_get_slot * 8192;
        const u32 v_1 = tile_tile_0 + tile_tile_get_slot * 8192;
        const i32 v_2 = add(tile_tile_get_slot, 1);
        const i1 v_3 = v_2 == 3;
        const i32 tile_tile_get_slot_0 = (v_3 ? 0 : v_2);
        const i32 v_4 = i32(v_3);
        const i32 tile_tile_get_phase_0 = tile_tile_get_phase ^ v_4;
        const u64 v_5 = matrix_desc(v_1, 16, 1024, 1);
        const u64 v_6 = matrix_desc(v_0, 16, 1024, 1);
        wgmma_fence();
        wgmma_m64n64k16_f32_f16_f16_nn(acc_0 + 0, v_6 + 0, v_5 + 0, accumulate);
        wgmma_m64n64k16_f32_f16_f16_nn(acc_0 + 0, v_6 + 2, v_5 + 2, true);
        wgmma_m64n64k16_f32_f16_f16_nn(acc_0 + 0, v_6 + 4, v_5 + 4, true);
        wgmma_m64n64k16_f32_f16_f16_nn(acc_0 + 0, v_6 + 6, v_5 + 6, true);
        wgmma_commit();
        wgmma_wait<1>();
        const i1 v_7 = previous >= 0;
        if (v_7) {
          if (threadIdx.x % 128 == 0) {
            mbarrier_arrive(tile_tile_empty + previous * 8);
          }
          rejoin();
        }
        const i32 next = tile_tile_get_slot;
        previous = next;
        tile_tile_get_slot = tile_tile_get_slot_0;
        tile_tile_get_phase = tile_tile_get_phase_0;
      }
      wgmma_wait<0>();
      pin(acc_0);
      const i1 ran = 0 < K;
      if (!ran) {
        #pragma unroll
        for (int i = 0; i < 32; ++i) acc_0[i] = f32{};
        pin(acc_0);
      }
      const i1 v_8 = previous >= 0;
      if (v_8) {
        if (threadIdx.x % 128 == 0) {
          mbarrier_arrive(tile_tile_empty + previous * 8);
        }
        rejoin();
      }
      if (threadIdx.x % 128 == 0) {
        bulk_wait_read<0>();
      }
      rejoin();
      named_barrier_sync(1, 128);
      const u32 v_9 = staging + 0 * 8192;
      const u32 v_10 = v_9 + 0 * 128;
      f32* const v_11 = acc_0 + 0;
      f16 v_12[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) round_pair(v_12[i], v_12[i + 1], v_11[i], v_11[i + 1]);
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        stmatrix(tile_address<128, 128, 8192>(v_10, warp % 4 * 16 + lane % 16, (j * 16 + lane / 16 * 8) * 2), pair(v_12[0 + j * 8 + 0], v_12[0 + j * 8 + 1]), pair(v_12[0 + j * 8 + 2], v_12[0 + j * 8 + 3]), pair(v_12[0 + j * 8 + 4], v_12[0 + j * 8 + 5]), pair(v_12[0 + j * 8 + 6], v_12[0 + j * 8 + 7]));
      }
      fence_proxy_async();
      named_barrier_sync(1, 128);
      if (threadIdx.x % 128 == 0) {
        tma_store(&c_map, v_10, 0, 0);
        bulk_commit();
      }
      rejoin();
      if (threadIdx.x % 128 == 0) {
        bulk_wait_read<0>();
      }
      rejoin();
    }
  }
  if (warp_id >= 4 && warp_id < 8) {
    // role load
    const int team = (warp_id - 4) / 4;
    const int warp = (warp_id - 4) % 4;
    const int thread = warp * 32 + lane;
    const int warp_group = 0;
    (void)team; (void)warp; (void)thread; (void)warp_group;
    if (threadIdx.x == 128) {
      i32 tile_tile_put_slot;
      tile_tile_put_slot = 0;
      i32 tile_tile_put_phase;
      tile_tile_put_phase = 0;
      #pragma unroll 1
      for (i32 k_0 = 0; k_0 < K; k_0 += 64) {
        const i32 v_13 = add(tile_tile_put_slot, 1);
        const i1 v_14 = v_13 == 3;
        const i32 tile_tile_put_slot_0 = (v_14 ? 0 : v_13);
        const i32 v_15 = i32(v_14);
        const i32 tile_tile_put_phase_0 = tile_tile_put_phase ^ v_15;
        const i32 v_16 = tile_tile_put_phase ^ 1;
        mbarrier_wait(tile_tile_empty + tile_tile_put_slot * 8, v_16);
        mbarrier_expect(tile_tile_full + tile_tile_put_slot * 8, 16384);
        const u32 v_17 = tile_tile + tile_tile_put_slot * 8192;
        const u32 v_18 = tile_tile_0 + tile_tile_put_slot * 8192;
        const u32 v_19 = v_17 + 0 * 128;
        tma_load(v_19, &a_map, tile_tile_full + tile_tile_put_slot * 8, k_0, 0);
        const u32 v_20 = v_18 + 0 * 128;
        tma_load(v_20, &b_map, tile_tile_full + tile_tile_put_slot * 8, k_0, 0);
        tile_tile_put_slot = tile_tile_put_slot_0;
        tile_tile_put_phase = tile_tile_put_phase_0;
      }
    }
  }
}
