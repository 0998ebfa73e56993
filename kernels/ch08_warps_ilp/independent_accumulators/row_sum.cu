// y[m] = sum of row m of x [M, N] in float32, one block per row.
//
// What the kernels differ in is how many loads a thread has under way before it waits for the first of them. A warp
// issues its instructions in order: an addition that needs a value which is still on its way stops the warp, and every
// load that stands behind that addition in the program has not been asked for yet.
//
// Offsets are 64-bit: 2^31 elements are 8 GB, which fit on the GPU.

// Loads in a row before the first addition, and running sums to add them to.
#ifndef LOADS
#define LOADS 8
#endif
#ifndef ACCUMULATORS
#define ACCUMULATORS 8
#endif

// The sum over all threads of the block, in thread 0. The block is whole warps, 1024 threads at most.
__device__ float block_sum(float value) {
    __shared__ float partial[32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    if (threadIdx.x % 32 == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    if (threadIdx.x < 32) {  // the first warp, all of it
        value = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2) {
            value += __shfl_down_sync(0xffffffff, value, offset);
        }
    }
    return value;
}

// As one writes it: one load, one addition, and around again.
extern "C" __global__ void row_sum_plain(float* __restrict__ y, const float* __restrict__ x, long long N) {
    const float* row = x + blockIdx.x * N;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < N; i += blockDim.x) {
        sum += row[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        y[blockIdx.x] = sum;
    }
}

// LOADS loads of 4 bytes, then LOADS additions, to ACCUMULATORS running sums in turn.
extern "C" __global__ void row_sum_unrolled(float* __restrict__ y, const float* __restrict__ x, long long N) {
    const float* row = x + blockIdx.x * N;
    long long step = blockDim.x;
    float sums[ACCUMULATORS] = {};
    long long i = threadIdx.x;
    for (; i + (LOADS - 1) * step < N; i += LOADS * step) {
        float values[LOADS];
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            values[load] = row[i + load * step];
        }
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            sums[load % ACCUMULATORS] += values[load];
        }
    }
    for (; i < N; i += step) {  // what is left: fewer than LOADS elements for each thread
        sums[0] += row[i];
    }
    float sum = 0.0f;
#pragma unroll
    for (int each = 0; each < ACCUMULATORS; ++each) {
        sum += sums[each];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        y[blockIdx.x] = sum;
    }
}

// LOADS loads of 16 bytes, each to a running sum of its own of four floats.
//
// x begins at a multiple of 16 bytes, a row of it need not: up to three elements before the first such multiple, and up
// to three behind the last, are read one by one.
extern "C" __global__ void row_sum_wide(float* __restrict__ y, const float* __restrict__ x, long long N) {
    const float* row = x + blockIdx.x * N;
    long long head = (4 - blockIdx.x * N % 4) % 4;
    head = head < N ? head : N;
    const float4* body = reinterpret_cast<const float4*>(row + head);
    long long count = (N - head) / 4;
    long long step = blockDim.x;

    float4 sums[LOADS] = {};
    long long i = threadIdx.x;
    for (; i + (LOADS - 1) * step < count; i += LOADS * step) {
        float4 values[LOADS];
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            values[load] = body[i + load * step];
        }
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            sums[load].x += values[load].x;
            sums[load].y += values[load].y;
            sums[load].z += values[load].z;
            sums[load].w += values[load].w;
        }
    }
    for (; i < count; i += step) {
        float4 value = body[i];
        sums[0].x += value.x;
        sums[0].y += value.y;
        sums[0].z += value.z;
        sums[0].w += value.w;
    }
    float sum = 0.0f;
#pragma unroll
    for (int each = 0; each < LOADS; ++each) {
        sum += (sums[each].x + sums[each].y) + (sums[each].z + sums[each].w);
    }
    if (threadIdx.x < head) {
        sum += row[threadIdx.x];
    }
    long long tail = head + 4 * count + threadIdx.x;
    if (tail < N) {  // at most three threads
        sum += row[tail];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        y[blockIdx.x] = sum;
    }
}
