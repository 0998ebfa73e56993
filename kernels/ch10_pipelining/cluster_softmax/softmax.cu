// Softmax over the rows of x [M, N] in bf16, a cluster of eight blocks per row: the row crosses HBM once each way.
//
// Block r of a cluster keeps the r-th slice of its row in its own shared memory, ceil(N / 8) values rounded up to 8. It
// finds the slice's maximum and the sum of exp(x - maximum), and publishes the pair. After one barrier over the cluster
// every block reads the other seven pairs straight from their shared memory, combines them and writes its slice.
//
// N must be a multiple of 8 (16-byte loads). 512 threads; dynamic shared memory: 2 bytes per value of a slice.

#include <cuda_bf16.h>

constexpr int BLOCKS = 8;  // of a cluster: as many as every GPU with clusters grants
constexpr int THREADS = 512;
constexpr int WARPS = THREADS / 32;
constexpr int VECTOR = 8;  // values in 16 bytes

struct Pair {
    float maximum;
    float sum;  // of exp(x - maximum)
};

// Two pairs of two sets make the pair of both. An empty set, or one of -inf alone, is (-inf, 0) and adds nothing.
__device__ __forceinline__ Pair combined(Pair a, Pair b) {
    float maximum = fmaxf(a.maximum, b.maximum);
    float from_a = a.sum == 0.f ? 0.f : a.sum * __expf(a.maximum - maximum);
    float from_b = b.sum == 0.f ? 0.f : b.sum * __expf(b.maximum - maximum);
    return {maximum, from_a + from_b};
}

__device__ __forceinline__ void widen(float (&x)[VECTOR], uint4 packed) {
    unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // bf16 is the upper half of an fp32
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// What was written before `arrive` is seen by everybody in the cluster after `wait`.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The pair that block `rank` of this cluster has at the same place in its own shared memory.
__device__ __forceinline__ Pair pair_of(unsigned rank, const Pair* own) {
    unsigned there;
    Pair pair;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(own)), "r"(rank));
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(pair.maximum), "=f"(pair.sum)
                 : "r"(there)
                 : "memory");
    return pair;
}
#endif

extern "C" __global__ __launch_bounds__(512) void softmax_cluster(__nv_bfloat16* __restrict__ y,
                                                                  const __nv_bfloat16* __restrict__ x, int N) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ uint4 slice[];
    __shared__ Pair of_warps[WARPS];
    __shared__ __align__(8) Pair of_block;

    unsigned rank = cluster_rank();
    long long row = blockIdx.x / BLOCKS;
    int vectors = N / VECTOR;
    int per_block = (vectors + BLOCKS - 1) / BLOCKS;
    int first = (int)rank * per_block;
    int mine = max(min(per_block, vectors - first), 0);  // short rows leave the last blocks with nothing
    const uint4* in = reinterpret_cast<const uint4*>(x + row * N) + first;
    uint4* out = reinterpret_cast<uint4*>(y + row * N) + first;

    // The only trip from HBM. The maximum is found on the way.
    const float inf = __int_as_float(0x7F800000);
    float maximum = -inf;
#pragma unroll 4
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        uint4 packed = in[i];
        slice[i] = packed;
        float values[VECTOR];
        widen(values, packed);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            maximum = fmaxf(maximum, values[j]);
        }
    }
    // Each thread reads back what it has written itself: no barrier is needed between the two loops.
    float sum = 0.f;
    float base = maximum == -inf ? 0.f : maximum;  // exp(-inf - 0) is 0, exp(-inf + inf) would be NaN
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        float values[VECTOR];
        widen(values, slice[i]);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            sum += __expf(values[j] - base);
        }
    }

    // Threads, warps, block.
    Pair pair = {maximum, sum};
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        Pair other = {__shfl_xor_sync(~0u, pair.maximum, distance), __shfl_xor_sync(~0u, pair.sum, distance)};
        pair = combined(pair, other);
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = pair;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; ++warp) {
            pair = combined(pair, of_warps[warp]);
        }
        of_block = pair;
    }
    __syncthreads();  // makes thread 0's warp whole again as well: the barriers below are for whole warps

    cluster_arrive();
    cluster_wait();  // every block's pair is there
    Pair total = pair_of(0, &of_block);
#pragma unroll
    for (unsigned other = 1; other < BLOCKS; ++other) {  // in the same order in every block: the same bits
        total = combined(total, pair_of(other, &of_block));
    }
    cluster_arrive();  // this block has read the others'; it waits for their word at the end

    float scale = 1.f / total.sum;
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        float values[VECTOR];
        widen(values, slice[i]);
        __nv_bfloat162 pairs[VECTOR / 2];
#pragma unroll
        for (int j = 0; j < VECTOR / 2; ++j) {
            pairs[j] = __floats2bfloat162_rn(__expf(values[2 * j] - total.maximum) * scale,
                                             __expf(values[2 * j + 1] - total.maximum) * scale);
        }
        out[i] = *reinterpret_cast<uint4*>(pairs);
    }
    __syncwarp();    // the last loop may have had turns for some lanes only
    cluster_wait();  // a block that leaves takes its shared memory along: not before all have read it
#else
    __trap();
#endif
}
