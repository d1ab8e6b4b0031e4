// tawa.spec: {"entry": "scaled_sum", "threads": 128, "shared_bytes": 0, "parameters": [{"kind": "PointerParam", "arg": 0, "source": "array"}, {"kind": "ScalarParam", "value": ["arg", 4], "type": "i32"}, {"kind": "ScalarParam", "value": ["arg", 3], "type": "f32"}, {"kind": "PointerParam", "arg": 1, "source": "array"}, {"kind": "PointerParam", "arg": 2, "source": "array"}], "arguments": ["x", "y", "out", "scale", "n"], "cluster": [1, 1, 1], "grid": "plain", "ctas_per_sm": 1, "apart": [["x", "out"], ["y", "out"]]}
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

__device__ __forceinline__ i8 mul(i8 x, i8 y) { return i8(u8(x) * u8(y)); }
__device__ __forceinline__ i16 mul(i16 x, i16 y) { return i16(u16(x) * u16(y)); }
__device__ __forceinline__ i32 mul(i32 x, i32 y) { return i32(u32(x) * u32(y)); }
__device__ __forceinline__ i64 mul(i64 x, i64 y) { return i64(u64(x) * u64(y)); }

__device__ __forceinline__ i8 add(i8 x, i8 y) { return i8(u8(x) + u8(y)); }
__device__ __forceinline__ i16 add(i16 x, i16 y) { return i16(u16(x) + u16(y)); }
__device__ __forceinline__ i32 add(i32 x, i32 y) { return i32(u32(x) + u32(y)); }
__device__ __forceinline__ i64 add(i64 x, i64 y) { return i64(u64(x) + u64(y)); }

template <class T, int count> struct alignas(sizeof(T) * count) Vector { T values[count]; };

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

template <class To, class From> __device__ __forceinline__ To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the width");
  union { From from; To to; } both;
  both.from = x;
  return both.to;
}


extern "C" __global__ void __launch_bounds__(128, 1)
scaled_sum(f32* x, i32 n, f32 scale, f32* y, f32* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const u32 smem = shared_address(shared_memory);
  (void)smem;
  {
    // role main
    __builtin_assume(threadIdx.x < 128);
    const int team = 0, warp = threadIdx.x / 32, thread = threadIdx.x;
    const int lane = threadIdx.x % 32, warp_group = 0;
    (void)team; (void)warp; (void)thread; (void)lane; (void)warp_group;
    const i32 v_0 = blockIdx.x;
    const i32 v_1 = mul(v_0, 512);
    f32* v_2[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_2[i] = x;
    i32 v_3[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v_3[i] = v_1;
    i32 v_4[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v_4[i] = 0 + warp * 128 + lane * 4 + i;
    i32 at[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) at[i] = add(v_3[i], v_4[i]);
    f32* v_5[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_5[i] = v_2[i] + at[i];
    f32* v_6[4];
    v_6[0] = v_5[0];
    v_6[1] = v_5[0] + 1;
    v_6[2] = v_5[0] + 2;
    v_6[3] = v_5[0] + 3;
    i32 v_7[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v_7[i] = n;
    i1 mask[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) mask[i] = at[i] < v_7[i];
    f32 v_8[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      v_8[i + 0] = f32{};
      v_8[i + 1] = f32{};
      v_8[i + 2] = f32{};
      v_8[i + 3] = f32{};
      if (mask[i] && mask[i + 1] && mask[i + 2] && mask[i + 3]) {
        const auto part = *reinterpret_cast<const Vector<f32, 4>*>(v_6[i]);
        v_8[i + 0] = part.values[0];
        v_8[i + 1] = part.values[1];
        v_8[i + 2] = part.values[2];
        v_8[i + 3] = part.values[3];
      }
      else {
        if (mask[i]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_6[i]);
          v_8[i + 0] = part.values[0];
        }
        if (mask[i + 1]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_6[i + 1]);
          v_8[i + 1] = part.values[0];
        }
        if (mask[i + 2]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_6[i + 2]);
          v_8[i + 2] = part.values[0];
        }
        if (mask[i + 3]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_6[i + 3]);
          v_8[i + 3] = part.values[0];
        }
      }
    }
    f32 v_9[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v_9[i] = scale;
    f32 v_10[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) v_10[i] = v_8[i] * v_9[i];
    f32* v_11[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_11[i] = y;
    f32* v_12[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_12[i] = v_11[i] + at[i];
    f32* v_13[4];
    v_13[0] = v_12[0];
    v_13[1] = v_12[0] + 1;
    v_13[2] = v_12[0] + 2;
    v_13[3] = v_12[0] + 3;
    f32 v_14[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) {
      v_14[i + 0] = f32{};
      v_14[i + 1] = f32{};
      v_14[i + 2] = f32{};
      v_14[i + 3] = f32{};
      if (mask[i] && mask[i + 1] && mask[i + 2] && mask[i + 3]) {
        const auto part = *reinterpret_cast<const Vector<f32, 4>*>(v_13[i]);
        v_14[i + 0] = part.values[0];
        v_14[i + 1] = part.values[1];
        v_14[i + 2] = part.values[2];
        v_14[i + 3] = part.values[3];
      }
      else {
        if (mask[i]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_13[i]);
          v_14[i + 0] = part.values[0];
        }
        if (mask[i + 1]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_13[i + 1]);
          v_14[i + 1] = part.values[0];
        }
        if (mask[i + 2]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_13[i + 2]);
          v_14[i + 2] = part.values[0];
        }
        if (mask[i + 3]) {
          const auto part = *reinterpret_cast<const Vector<f32, 1>*>(v_13[i + 3]);
          v_14[i + 3] = part.values[0];
        }
      }
    }
    f32 total[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) total[i] = v_10[i] + v_14[i];
    f32* v_15[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_15[i] = out;
    f32* v_16[4];
    #pragma unroll
    for (int i = 0; i < 4; i += 4) v_16[i] = v_15[i] + at[i];
    f32* v_17[4];
    v_17[0] = v_16[0];
    v_17[1] = v_16[0] + 1;
    v_17[2] = v_16[0] + 2;
    v_17[3] = v_16[0] + 3;
    {
      #pragma unroll
      for (int i = 0; i < 4; i += 4) {
        if (mask[i] && mask[i + 1] && mask[i + 2] && mask[i + 3]) {
          store_words(v_17[i], bit_cast<u32>(total[i + 0]), bit_cast<u32>(total[i + 1]), bit_cast<u32>(total[i + 2]), bit_cast<u32>(total[i + 3]));
        }
        else {
          if (mask[i]) {
            *reinterpret_cast<Vector<f32, 1>*>(v_17[i]) = Vector<f32, 1>{{total[i + 0]}};
          }
          if (mask[i + 1]) {
            *reinterpret_cast<Vector<f32, 1>*>(v_17[i + 1]) = Vector<f32, 1>{{total[i + 1]}};
          }
          if (mask[i + 2]) {
            *reinterpret_cast<Vector<f32, 1>*>(v_17[i + 2]) = Vector<f32, 1>{{total[i + 2]}};
          }
          if (mask[i + 3]) {
            *reinterpret_cast<Vector<f32, 1>*>(v_17[i + 3]) = Vector<f32, 1>{{total[i + 3]}};
          }
        }
      }
    }
  }
}
