// A 33-tap filter along the rows of a matrix, y[m][n] = sum over t of w[t] x[m][n + t], four times.
//
// In every kernel a block of 256 threads brings 2048 + 32 neighbouring floats of a row to shared memory and makes 2048
// outputs of them, eight per thread; `filter_tile`, the arithmetic, is the same function. Only the way in differs:
//
//   fir_one_tile   load into registers, put into shared memory, wait, filter; one tile per block
//   fir_walk       the same, but a block walks over many tiles
//   fir_cp_async   cp.async brings the next tile while this one is filtered: two stages
//   fir_bulk       cp.async.bulk brings a tile with one instruction of one thread, an mbarrier counts its bytes: four
//
// x is [M, N + 32], y is [M, N], row-major fp32, N a multiple of 4: then every row begins at a multiple of 16 bytes.

constexpr int TAPS = 33;
constexpr int HALO = TAPS - 1;      // what a tile reads beyond its own outputs
constexpr int THREADS = 256;
constexpr int TILE = 2048;          // outputs
constexpr int WINDOW = TILE + HALO; // floats in shared memory, 8320 bytes
constexpr int STAGES = 4;           // of fir_bulk

struct Place {
    long long in;   // of the tile's first float in x
    long long out;  // and in y
    int count;      // outputs; the last tile of a row may have fewer
};

__device__ __forceinline__ Place place_of(int tile, int tiles_per_row, int N) {
    int m = tile / tiles_per_row;
    int n = (tile - m * tiles_per_row) * TILE;
    return {(long long)m * (N + HALO) + n, (long long)m * N + n, min(TILE, N - n)};
}

__device__ __forceinline__ void load_taps(float (&taps)[TAPS], const float* __restrict__ w) {
#pragma unroll
    for (int t = 0; t < TAPS; ++t) {
        taps[t] = w[t];
    }
}

// From shared memory to y. A thread makes four neighbouring outputs of 36 neighbouring floats, twice: nine loads of 16
// bytes, in which the 32 threads of a warp lie side by side (no bank conflicts), for 132 multiply-adds.
__device__ __forceinline__ void filter_tile(float* __restrict__ y, const float* window, const float (&taps)[TAPS],
                                            Place place) {
    for (int first = threadIdx.x * 4; first < place.count; first += THREADS * 4) {
        float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int q = 0; q < (TAPS + 3) / 4; ++q) {
            float4 four = *reinterpret_cast<const float4*>(window + first + 4 * q);
            float x[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    int t = 4 * q + i - j;  // x[first + 4q + i] meets tap t in output first + j
                    if (t >= 0 && t < TAPS) {
                        sum[j] = fmaf(taps[t], x[i], sum[j]);
                    }
                }
            }
        }
        *reinterpret_cast<float4*>(y + place.out + first) = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
}

// Through registers: a thread has up to three loads in flight, and waits for them before it can store one.
__device__ __forceinline__ void fetch_through_registers(float* window, const float* __restrict__ x, Place place) {
    int floats = place.count + HALO;
#pragma unroll
    for (int i = 0; i < (WINDOW + 4 * THREADS - 1) / (4 * THREADS); ++i) {
        int at = (i * THREADS + threadIdx.x) * 4;
        if (at < floats) {
            *reinterpret_cast<float4*>(window + at) = *reinterpret_cast<const float4*>(x + place.in + at);
        }
    }
}

extern "C" __global__ __launch_bounds__(256, 4) void fir_one_tile(float* __restrict__ y, const float* __restrict__ x,
                                                                  const float* __restrict__ w, int N,
                                                                  int tiles_per_row, int tiles) {
    __shared__ __align__(128) float window[WINDOW];
    float taps[TAPS];
    load_taps(taps, w);
    Place place = place_of(blockIdx.x, tiles_per_row, N);
    fetch_through_registers(window, x, place);
    __syncthreads();
    filter_tile(y, window, taps, place);
}

extern "C" __global__ __launch_bounds__(256, 4) void fir_walk(float* __restrict__ y, const float* __restrict__ x,
                                                              const float* __restrict__ w, int N, int tiles_per_row,
                                                              int tiles) {
    __shared__ __align__(128) float window[WINDOW];
    float taps[TAPS];
    load_taps(taps, w);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        Place place = place_of(tile, tiles_per_row, N);
        fetch_through_registers(window, x, place);
        __syncthreads();
        filter_tile(y, window, taps, place);
        __syncthreads();  // before the next tile overwrites what others may still read
    }
}

// -- cp.async: 16 bytes from global to shared memory, without a register in between ------------------------------

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void fetch_async(float* window, const float* __restrict__ x, Place place) {
    int floats = place.count + HALO;
    for (int at = threadIdx.x * 4; at < floats; at += THREADS * 4) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(window + at)),
                     "l"(x + place.in + at)
                     : "memory");
    }
}

extern "C" __global__ __launch_bounds__(256, 4) void fir_cp_async(float* __restrict__ y, const float* __restrict__ x,
                                                                  const float* __restrict__ w, int N,
                                                                  int tiles_per_row, int tiles) {
    __shared__ __align__(128) float windows[2][WINDOW];
    float taps[TAPS];
    load_taps(taps, w);
    int tile = blockIdx.x;
    if (tile < tiles) {
        fetch_async(windows[0], x, place_of(tile, tiles_per_row, N));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int stage = 0; tile < tiles; tile += gridDim.x, stage ^= 1) {
        // Written as a difference: tile + gridDim.x may not fit an int.
        if ((int)gridDim.x < tiles - tile) {
            fetch_async(windows[stage ^ 1], x, place_of(tile + gridDim.x, tiles_per_row, N));
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty group keeps the count right at the end
        // All groups but the newest are complete: this tile is here, the next may still be on its way.
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();  // a thread has waited for its own copies only; now all have
        filter_tile(y, windows[stage], taps, place_of(tile, tiles_per_row, N));
        __syncthreads();  // before the next turn's copies overwrite what others may still read
    }
}

// -- cp.async.bulk: the copy engine moves a whole tile, a barrier in shared memory counts the bytes ----------------

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void barrier_init(unsigned long long* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// One arrival, and the promise of so many bytes: the phase ends when both have come.
__device__ __forceinline__ void barrier_expect(unsigned long long* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned long long* barrier, unsigned parity) {
    unsigned done = 0;
    while (!done) {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    }
}

__device__ __forceinline__ void fetch_bulk(float* window, unsigned long long* barrier, const float* __restrict__ x,
                                           Place place) {
    int bytes = (place.count + HALO) * (int)sizeof(float);  // a multiple of 16, as both addresses are
    barrier_expect(barrier, bytes);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(window)),
        "l"(x + place.in), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}
#endif

extern "C" __global__ __launch_bounds__(256, 4) void fir_bulk(float* __restrict__ y, const float* __restrict__ x,
                                                              const float* __restrict__ w, int N, int tiles_per_row,
                                                              int tiles) {
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(128) float windows[STAGES][WINDOW];
    __shared__ __align__(8) unsigned long long full[STAGES];
    bool leader = threadIdx.x == 0;
    if (leader) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&full[stage], 1);
        }
        // The copy engine is to see the barriers as they are now.
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    long long ahead = blockIdx.x;  // the next tile to ask for
    if (leader) {
        for (int stage = 0; stage < STAGES && ahead < tiles; ++stage, ahead += gridDim.x) {
            fetch_bulk(windows[stage], &full[stage], x, place_of((int)ahead, tiles_per_row, N));
        }
    }
    float taps[TAPS];
    load_taps(taps, w);
    int stage = 0;
    unsigned parity = 0;  // flips each time around the ring
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        barrier_wait(&full[stage], parity);
        filter_tile(y, windows[stage], taps, place_of((int)tile, tiles_per_row, N));
        __syncthreads();  // everybody has read this stage
        if (leader && ahead < tiles) {
            fetch_bulk(windows[stage], &full[stage], x, place_of((int)ahead, tiles_per_row, N));
            ahead += gridDim.x;
        }
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
#else
    __trap();
#endif
}
