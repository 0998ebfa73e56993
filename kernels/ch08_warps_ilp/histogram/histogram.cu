// How often each of the 256 values of a byte occurs in x [N].
//
// The kernels differ in where they count while they read; all of them read 16 bytes per thread and load, and all of them
// end up in the same 256 counters of 64 bits in global memory, which must be zero at the start. Private counters have
// 32 bits: a block sees fewer than 2^32 bytes as long as x has fewer than 2^40.
//
// An atomicAdd to shared memory is one instruction, and whose lanes name the same word, or different words of one bank,
// is carried out in several passes. Adding the constant 1 is a case of its own, ATOMS.POPC.INC: the lanes that name the
// same word are counted first and added in one pass.

constexpr int BINS = 256;
constexpr int WARP = 32;
constexpr unsigned int ALL = 0xffffffff;

// Calls count(value) for each byte of x, each exactly once over the whole grid. x begins at a multiple of 16 bytes, and
// the grid has at least 15 threads.
template <typename Count>
__device__ void each_byte(const unsigned char* __restrict__ x, long long N, Count count) {
    const uint4* vectors = reinterpret_cast<const uint4*>(x);
    long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long threads = (long long)gridDim.x * blockDim.x;
    for (long long i = thread; i < N / 16; i += threads) {
        uint4 vector = vectors[i];
        unsigned int words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (int word = 0; word < 4; ++word) {
#pragma unroll
            for (int shift = 0; shift < 32; shift += 8) {
                count((words[word] >> shift) & 0xff);
            }
        }
    }
    long long last = N / 16 * 16 + thread;
    if (last < N) {  // the last bytes, up to 15 of them
        count(x[last]);
    }
}

// Straight to global memory: 256 counters for the whole GPU.
extern "C" __global__ void histogram_global(unsigned long long* __restrict__ bins, const unsigned char* __restrict__ x,
                                            long long N) {
    each_byte(x, N, [&](unsigned int value) { atomicAdd(&bins[value], 1ULL); });
}

// 256 counters for each block, in shared memory.
extern "C" __global__ void histogram_shared(unsigned long long* __restrict__ bins, const unsigned char* __restrict__ x,
                                            long long N) {
    __shared__ unsigned int counts[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        counts[bin] = 0;
    }
    __syncthreads();
    each_byte(x, N, [&](unsigned int value) { atomicAdd(&counts[value], 1u); });
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        atomicAdd(&bins[bin], (unsigned long long)counts[bin]);
    }
}

// 256 counters for each warp: 32 KB in a block of 1024 threads.
extern "C" __global__ void histogram_warps(unsigned long long* __restrict__ bins, const unsigned char* __restrict__ x,
                                           long long N) {
    __shared__ unsigned int counts[WARP][BINS];  // of a warp, of a value
    for (int i = threadIdx.x; i < WARP * BINS; i += blockDim.x) {
        counts[i / BINS][i % BINS] = 0;
    }
    __syncthreads();
    unsigned int* own = counts[threadIdx.x / WARP];
    each_byte(x, N, [&](unsigned int value) { atomicAdd(&own[value], 1u); });
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        unsigned int sum = 0;
        for (int warp = 0; warp < WARP; ++warp) {
            sum += counts[warp][bin];
        }
        atomicAdd(&bins[bin], (unsigned long long)sum);
    }
}

// 256 counters for each lane number: 32 KB as well, but lane l of every warp counts in bank l, so that the 32 lanes of a
// warp never meet, whatever the values are.
extern "C" __global__ void histogram_lanes(unsigned long long* __restrict__ bins, const unsigned char* __restrict__ x,
                                           long long N) {
    __shared__ unsigned int counts[BINS][WARP];  // of a value, of a lane
    for (int i = threadIdx.x; i < BINS * WARP; i += blockDim.x) {
        counts[i / WARP][i % WARP] = 0;
    }
    __syncthreads();
    int lane = threadIdx.x % WARP;
    each_byte(x, N, [&](unsigned int value) { atomicAdd(&counts[value][lane], 1u); });
    __syncthreads();
    for (int bin = threadIdx.x / WARP; bin < BINS; bin += blockDim.x / WARP) {  // a warp for each bin
        unsigned int sum = __reduce_add_sync(ALL, counts[bin][lane]);
        if (lane == 0) {
            atomicAdd(&bins[bin], (unsigned long long)sum);
        }
    }
}
