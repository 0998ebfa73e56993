// c = a b^T for fp16 a [M, K] and b [N, K], fp32 sums, fp16 c [M, N], three times. Needs K and N multiples of 8.
//
// In every kernel a block makes a tile of 128 x 256 with 32768 sums in the registers of 256 threads, walks along K in
// steps of 64, and keeps four steps of a and b in shared memory: 16 + 32 KB each. What differs:
//
//   gemm_mma           cp.async by all threads, ldmatrix into registers, mma.sync m16n8k16 by one warp at a time
//   gemm_wgmma         TMA by one thread, wgmma m64n256k16 straight from shared memory by four warps together
//   gemm_specialised   the same, but a warp of its own does the fetching, and no block-wide barrier stands in the loop
//
// A row of a stage is 64 halves, 128 bytes, eight chunks of 16. Chunk c of row r is kept at place c ^ (r % 8): the
// "128-byte swizzle" that TMA writes and wgmma reads, and that keeps ldmatrix free of bank conflicts.

#include <cuda_fp16.h>

constexpr int BLOCK_M = 128;
constexpr int BLOCK_N = 256;
constexpr int BLOCK_K = 64;
constexpr int STAGES = 4;
constexpr int GROUP_M = 8;                     // tiles of so many block rows share a stretch of b in the L2
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 2; // 16384
constexpr int B_BYTES = BLOCK_N * BLOCK_K * 2; // 32768
constexpr int STAGE_BYTES = A_BYTES + B_BYTES; // a, then b; each begins at a multiple of 1024

struct alignas(64) TensorMap {
    char bytes[128];
};

// -- what all kernels share ------------------------------------------------------------------------------------------

// The tile of a block: in bands of GROUP_M block rows, column by column inside a band.
__device__ __forceinline__ void place_of(int tile, int M, int N, int& m0, int& n0) {
    int tiles_m = (M + BLOCK_M - 1) / BLOCK_M;
    int tiles_n = (N + BLOCK_N - 1) / BLOCK_N;
    int band = tile / (GROUP_M * tiles_n);
    int height = min(tiles_m - band * GROUP_M, GROUP_M);
    int within = tile - band * GROUP_M * tiles_n;
    m0 = (band * GROUP_M + within % height) * BLOCK_M;
    n0 = within / height * BLOCK_N;
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// The first multiple of 1024 in the dynamic shared memory: the swizzle counts rows from there.
__device__ __forceinline__ unsigned stages_begin(const void* dynamic) {
    return (shared_address(dynamic) + 1023u) & ~1023u;
}

// Two sums that lie side by side, as one store of 4 bytes. N is even and so is the column: either both are inside or none.
__device__ __forceinline__ void store_pair(__half* c, int row, int column, int M, int N, float left, float right) {
    if (row < M && column < N) {
        *reinterpret_cast<__half2*>(c + (long long)row * N + column) = __floats2half2_rn(left, right);
    }
}

// -- mma.sync: the tensor core as one warp sees it ---------------------------------------------------------------------

// Sixteen bytes of row `row`, chunk `chunk`, into the swizzled stage; zeros where the matrix has ended.
__device__ __forceinline__ void copy_chunk(unsigned stage, int row, int chunk, const __half* matrix, int first_row,
                                           int rows, int first_k, int K) {
    int k = first_k + chunk * 8;
    bool inside = first_row + row < rows && k < K;  // K is a multiple of 8: a chunk is inside or outside as a whole
    const __half* source = inside ? matrix + (long long)(first_row + row) * K + k : matrix;
    unsigned target = stage + row * 128 + ((chunk ^ (row & 7)) << 4);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copy_stage(unsigned stage, const __half* a, const __half* b, int m0, int n0, int k0,
                                           int M, int N, int K) {
#pragma unroll
    for (int i = 0; i < BLOCK_M * 8 / 256; ++i) {
        int at = i * 256 + threadIdx.x;
        copy_chunk(stage, at >> 3, at & 7, a, m0, M, k0, K);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N * 8 / 256; ++i) {
        int at = i * 256 + threadIdx.x;
        copy_chunk(stage + A_BYTES, at >> 3, at & 7, b, n0, N, k0, K);
    }
}

// Four 8 x 8 matrices of halves; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned tile, int row, int chunk) {
    unsigned address = tile + row * 128 + ((chunk ^ (row & 7)) << 4);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// Eight warps, two by four, each with 64 x 64 of the tile: 4 x 8 products of 16 x 8.
extern "C" __global__ __launch_bounds__(256, 1) void gemm_mma(__half* __restrict__ c, const __half* __restrict__ a,
                                                              const __half* __restrict__ b, int M, int N, int K) {
    extern __shared__ unsigned char dynamic[];
    unsigned stages = stages_begin(dynamic);
    int m0, n0;
    place_of(blockIdx.x, M, N, m0, n0);
    int lane = threadIdx.x & 31;
    int warp_m = (threadIdx.x >> 5) / 4 * 64;
    int warp_n = (threadIdx.x >> 5) % 4 * 64;
    int steps = (K + BLOCK_K - 1) / BLOCK_K;

    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) {
            copy_stage(stages + step * STAGE_BYTES, a, b, m0, n0, step * BLOCK_K, M, N, K);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // an empty group keeps the count right
    }

    float sums[4][8][4] = {};
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // this step is here for everybody, and everybody is done with the one before
        int ahead = step + STAGES - 1;
        if (ahead < steps) {
            copy_stage(stages + ahead % STAGES * STAGE_BYTES, a, b, m0, n0, ahead * BLOCK_K, M, N, K);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");

        unsigned a_tile = stages + step % STAGES * STAGE_BYTES;
        unsigned b_tile = a_tile + A_BYTES;
#pragma unroll
        for (int kk = 0; kk < BLOCK_K / 16; ++kk) {
            unsigned a_part[4][4], b_part[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // 16 rows of a: rows 0-7 and 8-15 of k 0-7, then of k 8-15
                load_matrices(a_part[i], a_tile, warp_m + i * 16 + (lane & 15), 2 * kk + (lane >> 4));
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {  // 16 rows of b: k 0-7 and 8-15 of rows 0-7, then of rows 8-15
                load_matrices(b_part[j], b_tile, warp_n + j * 16 + (lane & 7) + ((lane >> 4) << 3),
                              2 * kk + ((lane >> 3) & 1));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float(&d)[4] = sums[i][j];
                    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                        "{%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(a_part[i][0]), "r"(a_part[i][1]), "r"(a_part[i][2]), "r"(a_part[i][3]),
                          "r"(b_part[j / 2][j % 2 * 2]), "r"(b_part[j / 2][j % 2 * 2 + 1]));
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            int row = m0 + warp_m + i * 16 + lane / 4;
            int column = n0 + warp_n + j * 8 + lane % 4 * 2;
            store_pair(c, row, column, M, N, sums[i][j][0], sums[i][j][1]);
            store_pair(c, row + 8, column, M, N, sums[i][j][2], sums[i][j][3]);
        }
    }
}

// -- TMA and wgmma: the tensor core as four warps see it, fed by the copy engine ----------------------------------------

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// What a thread does after it has made barriers, before the copy engine or another thread meets them.
__device__ __forceinline__ void barriers_made() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    unsigned done = 0;
    while (!done) {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
    }
}

// A box of a matrix into shared memory. The coordinates are (k, row); beyond the matrix come zeros, and they count.
__device__ __forceinline__ void copy_box(unsigned target, const TensorMap& map, int k, int row, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(target),
        "l"(&map), "r"(k), "r"(row), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void copy_step(unsigned stage, unsigned barrier, const TensorMap& a, const TensorMap& b,
                                          int m0, int n0, int k0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE_BYTES) : "memory");
    copy_box(stage, a, k0, m0, barrier);
    copy_box(stage + A_BYTES, b, k0, n0, barrier);
}

// How wgmma finds an operand: its first byte / 16, 1024 bytes (eight rows of 128) from one group of rows to the next,
// and the 128-byte swizzle. The leading offset has no meaning for this layout.
__device__ __forceinline__ unsigned long long operand(unsigned address) {
    return (unsigned long long)((address & 0x3FFFF) >> 4) | 1ull << 16 | (unsigned long long)(1024 >> 4) << 32 |
           1ull << 62;
}

#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)

// d [64, 256] += a [64, 16] b [256, 16]^T, begun by the 128 threads of a warpgroup together; it returns at once.
__device__ __forceinline__ void begin_product(float (&d)[128], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, 1, 1, 1, 0, 0;"  // add to d, a and b as they are, both with k along memory
        : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
        : "l"(a), "l"(b));
}

// Says that d is read and written here: no copy or conversion of a sum moves across, neither into the time in which the
// tensor core owns the registers nor out of it. Makes no instruction.
__device__ __forceinline__ void pin(float (&d)[128]) {
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        asm volatile("" : "+f"(d[i])::"memory");
    }
}

// The four products of a step, as one group. A step of 16 along k is 32 bytes inside the swizzled row, 2 in the operand.
__device__ __forceinline__ void begin_step(float (&d)[128], unsigned a_tile, unsigned b_tile) {
    unsigned long long a = operand(a_tile), b = operand(b_tile);
    pin(d);
    __syncwarp();  // what follows is for whole warps: a lane that has just asked for a copy may be behind
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");  // the registers of d are the tensor core's from here on
#pragma unroll
    for (int kk = 0; kk < BLOCK_K / 16; ++kk) {
        begin_product(d, a + 2 * kk, b + 2 * kk);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int NEWER>  // until all groups but the newest so many are complete
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWER) : "memory");
}

// d as the warpgroup's threads hold it: warp w has rows 16 w and on, a thread two rows and pairs of columns.
__device__ __forceinline__ void store_sums(__half* c, const float (&d)[128], int m0, int n0, int M, int N) {
    int row = m0 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    int column = n0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < BLOCK_N / 8; ++j) {
        store_pair(c, row, column + j * 8, M, N, d[4 * j], d[4 * j + 1]);
        store_pair(c, row + 8, column + j * 8, M, N, d[4 * j + 2], d[4 * j + 3]);
    }
}

#endif

// Two warpgroups, 64 rows of the tile each. Thread 0 also asks for what comes.
extern "C" __global__ __launch_bounds__(256, 1) void gemm_wgmma(__half* __restrict__ c,
                                                                const __grid_constant__ TensorMap a,
                                                                const __grid_constant__ TensorMap b, int M, int N,
                                                                int K) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long full[STAGES];
    unsigned stages = stages_begin(dynamic);
    unsigned first_full = shared_address(full);
    int m0, n0;
    place_of(blockIdx.x, M, N, m0, n0);
    int steps = (K + BLOCK_K - 1) / BLOCK_K;
    int group_row = threadIdx.x / 128 * 64;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(first_full + stage * 8, 1);
        }
        barriers_made();
        for (int step = 0; step < STAGES && step < steps; ++step) {
            copy_step(stages + step * STAGE_BYTES, first_full + step * 8, a, b, m0, n0, step * BLOCK_K);
        }
    }
    __syncthreads();

    float d[128] = {};
    for (int step = 0; step < steps; ++step) {
        int stage = step % STAGES;
        unsigned a_tile = stages + stage * STAGE_BYTES;
        barrier_wait(first_full + stage * 8, step / STAGES & 1);
        begin_step(d, a_tile + group_row * 128, a_tile + A_BYTES);
        wait_products<1>();  // this step's products run on; those of the step before are complete
        __syncthreads();     // in both warpgroups: its stage may be filled again
        int ahead = step - 1 + STAGES;
        if (threadIdx.x == 0 && step > 0 && ahead < steps) {
            int free_stage = ahead % STAGES;
            copy_step(stages + free_stage * STAGE_BYTES, first_full + free_stage * 8, a, b, m0, n0, ahead * BLOCK_K);
        }
    }
    wait_products<0>();
    pin(d);
    store_sums(c, d, m0 + group_row, n0, M, N);
#else
    __trap();
#endif
}

// Three warpgroups: the first fetches (one thread of it), the other two multiply. Each stage has two barriers: `full`
// counts bytes, and `empty` counts the eight warps that are done with it.
extern "C" __global__ __launch_bounds__(384, 1) void gemm_specialised(__half* __restrict__ c,
                                                                      const __grid_constant__ TensorMap a,
                                                                      const __grid_constant__ TensorMap b, int M,
                                                                      int N, int K) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ __align__(8) unsigned long long full[STAGES];
    __shared__ __align__(8) unsigned long long empty[STAGES];
    unsigned stages = stages_begin(dynamic);
    unsigned first_full = shared_address(full);
    unsigned first_empty = shared_address(empty);
    int m0, n0;
    place_of(blockIdx.x, M, N, m0, n0);
    int steps = (K + BLOCK_K - 1) / BLOCK_K;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(first_full + stage * 8, 1);
            barrier_init(first_empty + stage * 8, 8);
        }
        barriers_made();
    }
    __syncthreads();  // the only one: from here on the roles meet at the stages' barriers alone

    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            for (int step = 0; step < steps; ++step) {
                int stage = step % STAGES;
                // The first time around nobody has to leave: the phase before the first counts as complete.
                barrier_wait(first_empty + stage * 8, (step / STAGES & 1) ^ 1);
                copy_step(stages + stage * STAGE_BYTES, first_full + stage * 8, a, b, m0, n0, step * BLOCK_K);
            }
        }
    } else {
        int group_row = (threadIdx.x / 128 - 1) * 64;
        float d[128] = {};
        for (int step = 0; step < steps; ++step) {
            int stage = step % STAGES;
            unsigned a_tile = stages + stage * STAGE_BYTES;
            barrier_wait(first_full + stage * 8, step / STAGES & 1);
            begin_step(d, a_tile + group_row * 128, a_tile + A_BYTES);
            wait_products<1>();  // this step's products run on; those of the step before are complete
            if (step > 0 && threadIdx.x % 32 == 0) {
                barrier_arrive(first_empty + (step - 1) % STAGES * 8);
            }
        }
        wait_products<0>();
        pin(d);
        store_sums(c, d, m0 + group_row, n0, M, N);
    }
#else
    __trap();
#endif
}
