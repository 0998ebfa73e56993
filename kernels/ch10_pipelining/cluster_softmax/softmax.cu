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
constexpr float LOG2_E = 1.4426950408889634f;

struct Pair {
    float maximum;
    float sum;  // of exp(x - maximum)
};

// 2^x in one instruction: what is below the least normal number becomes zero.
__device__ __forceinline__ float two_to(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The pair of `LANES` neighbouring lanes, the same bits in each. An empty set, or one of -inf alone, is (-inf, 0) and
// adds nothing. The maximum goes first: then every sum is scaled once, not once per step.
template <int LANES>
__device__ __forceinline__ Pair combined(Pair own) {
    float maximum = own.maximum;
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, distance));
    }
    float sum = own.sum == 0.f ? 0.f : own.sum * two_to((own.maximum - maximum) * LOG2_E);
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(~0u, sum, distance);
    }
    return {maximum, sum};
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

    // The only trip from HBM. The maximum is found on the way, two values an instruction.
    const float inf = __int_as_float(0x7F800000);
    __nv_bfloat162 greatest = __float2bfloat162_rn(-inf);
#pragma unroll 4
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        uint4 packed = in[i];
        slice[i] = packed;
        const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&packed);
#pragma unroll
        for (int j = 0; j < VECTOR / 2; ++j) {
            greatest = __hmax2(greatest, pairs[j]);
        }
    }
    // Each thread reads back what it has written itself: no barrier is needed between the two loops.
    float maximum = fmaxf(__low2float(greatest), __high2float(greatest));
    float sum = 0.f;
    float base = maximum == -inf ? 0.f : maximum;  // exp(-inf - 0) is 0, exp(-inf + inf) would be NaN
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        float values[VECTOR];
        widen(values, slice[i]);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            sum += two_to((values[j] - base) * LOG2_E);
        }
    }

    // Threads, warps, block: the last by every warp for itself, for as long as one would take.
    Pair pair = combined<32>({maximum, sum});
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = pair;
    }
    __syncthreads();
    pair = combined<WARPS>(of_warps[threadIdx.x % WARPS]);
    if (threadIdx.x == 0) {
        of_block = pair;
    }
    __syncwarp();  // the barriers below are for whole warps

    cluster_arrive();
    cluster_wait();  // every block's pair is there
    Pair total = combined<BLOCKS>(pair_of(threadIdx.x % BLOCKS, &of_block));
    cluster_arrive();  // this block has read the others'; it waits for their word at the end

    // exp(x - maximum) / sum as one power: the difference first, which is exact where it matters.
    float shift = __log2f(total.sum);
    for (int i = threadIdx.x; i < mine; i += THREADS) {
        float values[VECTOR];
        widen(values, slice[i]);
        __nv_bfloat162 pairs[VECTOR / 2];
#pragma unroll
        for (int j = 0; j < VECTOR / 2; ++j) {
            pairs[j] = __floats2bfloat162_rn(two_to(fmaf(values[2 * j] - total.maximum, LOG2_E, -shift)),
                                             two_to(fmaf(values[2 * j + 1] - total.maximum, LOG2_E, -shift)));
        }
        out[i] = *reinterpret_cast<uint4*>(pairs);
    }
    __syncwarp();    // the last loop may have had turns for some lanes only
    cluster_wait();  // a block that leaves takes its shared memory along: not before all have read it
#else
    __trap();
#endif
}
