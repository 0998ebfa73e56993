// Four roads for y[i] = factor * x[i] in float32: the width of a load against the number of loads in flight.
//
// All kernels have blocks of 256 threads. Where a thread moves several elements, all its loads are issued before the
// first store: the compiler may not do that by itself where it cannot know that x and y are apart, hence
// __restrict__ and the small array. Offsets are 64-bit: more than 2^31 floats fit into this GPU.

constexpr int THREADS = 256;

// Float4s per thread of scale_wide.
#ifndef VECTORS
#define VECTORS 1
#endif

// One element per thread: 4 bytes in flight each, 8 KiB per SM when 2048 threads are resident.
extern "C" __global__ void scale_one(float* __restrict__ y, const float* __restrict__ x, float factor, long long N) {
    long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < N) {
        y[i] = factor * x[i];
    }
}

// Four elements per thread, each by a load of its own: 16 bytes in flight. Neighbouring threads keep neighbouring
// elements, so each of the four requests of a warp is one whole line of 128 bytes.
extern "C" __global__ void scale_scalar(float* __restrict__ y, const float* __restrict__ x, float factor, long long N) {
    long long first = (long long)blockIdx.x * THREADS * 4 + threadIdx.x;
    float value[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        long long i = first + j * THREADS;
        value[j] = i < N ? x[i] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        long long i = first + j * THREADS;
        if (i < N) {
            y[i] = factor * value[j];
        }
    }
}

// Sixteen bytes per load: a warp's request is four lines, and there are a quarter as many requests. With VECTORS = 1
// as many bytes in flight as scale_scalar. x and y must be aligned to 16 bytes.
extern "C" __global__ void scale_wide(float* __restrict__ y, const float* __restrict__ x, float factor, long long N) {
    long long first = (long long)blockIdx.x * THREADS * VECTORS + threadIdx.x;  // in float4s
    float4 value[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
        long long v = first + j * THREADS;
        if (v * 4 + 3 < N) {
            value[j] = reinterpret_cast<const float4*>(x)[v];
        }
    }
#pragma unroll
    for (int j = 0; j < VECTORS; ++j) {
        long long v = first + j * THREADS;
        if (v * 4 + 3 < N) {
            float4 scaled = {factor * value[j].x, factor * value[j].y, factor * value[j].z, factor * value[j].w};
            reinterpret_cast<float4*>(y)[v] = scaled;
        } else {
            for (long long i = v * 4; i < N; ++i) {  // the one vector that N cuts; beyond it the loop is empty
                y[i] = factor * x[i];
            }
        }
    }
}
