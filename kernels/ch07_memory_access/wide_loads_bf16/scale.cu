// Three roads for y[i] = factor * x[i] in bfloat16: one 2-byte load per thread, eight of them, or one of 16 bytes.
//
// Blocks of 256 threads. The product is taken in fp32 and rounded once, to nearest. Offsets are 64-bit: more than
// 2^31 elements fit into this GPU.

#include <cuda_bf16.h>

constexpr int THREADS = 256;
constexpr int WIDTH = 8;  // elements in 16 bytes

__device__ __forceinline__ __nv_bfloat16 scaled(__nv_bfloat16 x, float factor) {
    return __float2bfloat16(factor * __bfloat162float(x));
}

// One element per thread: a warp's request is 64 bytes, half a line, and an SM has 2048 x 2 B = 4 KiB in flight.
extern "C" __global__ void scale_one(
    __nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x, float factor, long long N) {
    long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        y[i] = scaled(x[i], factor);
    }
}

// Eight elements per thread by eight loads, all issued before the first store. The requests are as narrow as above,
// the bytes in flight are those of one 16-byte load.
extern "C" __global__ void scale_scalar(
    __nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x, float factor, long long N) {
    long long first = (long long)blockIdx.x * THREADS * WIDTH + threadIdx.x;
    __nv_bfloat16 value[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        long long i = first + j * THREADS;
        value[j] = i < N ? x[i] : __nv_bfloat16(0.0f);
    }
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
        long long i = first + j * THREADS;
        if (i < N) {
            y[i] = scaled(value[j], factor);
        }
    }
}

// Eight elements per thread by one load: a warp's request is 512 bytes, four whole lines. x and y must be aligned to
// 16 bytes.
extern "C" __global__ void scale_wide(
    __nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x, float factor, long long N) {
    long long first = ((long long)blockIdx.x * THREADS + threadIdx.x) * WIDTH;
    if (first + WIDTH <= N) {
        uint4 raw = *reinterpret_cast<const uint4*>(x + first);
        __nv_bfloat16* value = reinterpret_cast<__nv_bfloat16*>(&raw);  // stays in registers: all indices are constants
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            value[j] = scaled(value[j], factor);
        }
        *reinterpret_cast<uint4*>(y + first) = raw;
    } else {
        for (long long i = first; i < N; ++i) {  // the one vector that N cuts; beyond it the loop is empty
            y[i] = scaled(x[i], factor);
        }
    }
}
