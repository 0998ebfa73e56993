// c = a b, five times: float16 in and out, sums in float32. a is [M, K], b is [K, N], c is [M, N], all row-major.
//
// Each kernel differs from the one before it in one thing: where its operands come from (global memory, a tile in
// shared memory), how many outputs a thread computes with what it has read (1 or 64), who multiplies (FMA units or
// tensor cores), and whether it waits for the next tile or asks for it ahead of time.
//
// Any sizes are right. Tiles are filled with zeros beyond the edge, and what lies beyond c is not stored. Eight
// elements are loaded at once, 16 bytes, where `vector` says that K and N are multiples of 8 and all pointers are
// aligned; otherwise one by one. Offsets are 64-bit.

#include <cuda_fp16.h>

// -- 1. one output per thread, operands from global memory -------------------------------------------------------

// Block (32, 8). A warp has 32 neighbouring columns of one row: its loads of b are 64 bytes in a row, its loads of a
// are one address for all. Two loads for each multiply-add.
extern "C" __global__ void gemm_naive(
    __half* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int M, int N, int K) {
    int n = blockIdx.x * 32 + threadIdx.x;
    int m = blockIdx.y * 8 + threadIdx.y;
    if (m >= M || n >= N) {
        return;
    }
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += __half2float(a[(long long)m * K + k]) * __half2float(b[(long long)k * N + n]);
    }
    c[(long long)m * N + n] = __float2half(sum);
}

// -- 2. the same, from tiles in shared memory --------------------------------------------------------------------

constexpr int TILE = 32;

// Block (32, 32), one output per thread. The block loads a 32x32 tile of a and of b together, and each element is
// then read by 32 threads: global loads fall to 1/32. Two shared loads for each multiply-add remain.
extern "C" __global__ void gemm_tiled(
    __half* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int M, int N, int K) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int n = blockIdx.x * TILE + tx;
    int m = blockIdx.y * TILE + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        a_tile[ty][tx] = m < M && k0 + tx < K ? __half2float(a[(long long)m * K + k0 + tx]) : 0.0f;
        b_tile[ty][tx] = k0 + ty < K && n < N ? __half2float(b[(long long)(k0 + ty) * N + n]) : 0.0f;
        __syncthreads();  // the tiles are read by other threads than wrote them
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            sum += a_tile[ty][k] * b_tile[k][tx];
        }
        __syncthreads();  // and overwritten only when everybody has read them
    }
    if (m < M && n < N) {
        c[(long long)m * N + n] = __float2half(sum);
    }
}

// -- 3. the same, 64 outputs per thread --------------------------------------------------------------------------

constexpr int BLOCK_M = 128;  // of this kernel and the ones that follow
constexpr int BLOCK_N = 128;
constexpr int THREADS = 256;

// Eight neighbouring elements of row `row` from column `column` on; zeros beyond [rows, columns].
__device__ __forceinline__ uint4 load_eight(
    const __half* base, int row, int column, int rows, int columns, bool vector) {
    uint4 raw = {0, 0, 0, 0};
    if (row >= rows) {
        return raw;
    }
    const __half* from = base + (long long)row * columns + column;
    if (vector) {  // columns is a multiple of 8, so all eight are inside or none
        if (column < columns) {
            raw = *reinterpret_cast<const uint4*>(from);
        }
    } else {
        __half* value = reinterpret_cast<__half*>(&raw);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (column + j < columns) {
                value[j] = from[j];
            }
        }
    }
    return raw;
}

// Block of 256 threads as 16x16, a 128x128 tile of c. Thread (ty, tx) has rows 4 ty + {0..3} and columns
// 4 tx + {0..3} of each of the tile's four quarters: 8 + 8 numbers read for 64 multiply-adds.
extern "C" __global__ __launch_bounds__(THREADS) void gemm_registers(
    __half* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int M, int N, int K,
    int vector) {
    constexpr int BLOCK_K = 16;
    constexpr int PITCH = BLOCK_M + 4;  // a multiple of 4 floats, for 16-byte reads
    __shared__ __align__(16) float a_tile[BLOCK_K][PITCH];  // turned: a thread reads its rows side by side
    __shared__ __align__(16) float b_tile[BLOCK_K][BLOCK_N];

    int tid = threadIdx.x;
    int tx = tid % 16;
    int ty = tid / 16;
    int m0 = blockIdx.y * BLOCK_M;
    int n0 = blockIdx.x * BLOCK_N;
    float sum[8][8] = {};

    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        // 128 x 16 of a and 16 x 128 of b: eight elements of each per thread.
        int a_row = tid / 2;
        int a_column = tid % 2 * 8;
        int b_row = tid / 16;
        int b_column = tid % 16 * 8;
        uint4 a_raw = load_eight(a, m0 + a_row, k0 + a_column, M, K, vector);
        uint4 b_raw = load_eight(b, k0 + b_row, n0 + b_column, K, N, vector);
        const __half* a_value = reinterpret_cast<const __half*>(&a_raw);
        const __half* b_value = reinterpret_cast<const __half*>(&b_raw);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            a_tile[a_column + j][a_row] = __half2float(a_value[j]);
        }
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            float4 four = {__half2float(b_value[j]), __half2float(b_value[j + 1]), __half2float(b_value[j + 2]),
                           __half2float(b_value[j + 3])};
            *reinterpret_cast<float4*>(&b_tile[b_row][b_column + j]) = four;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK_K; ++k) {
            float4 a_low = *reinterpret_cast<const float4*>(&a_tile[k][ty * 4]);
            float4 a_high = *reinterpret_cast<const float4*>(&a_tile[k][64 + ty * 4]);
            float4 b_low = *reinterpret_cast<const float4*>(&b_tile[k][tx * 4]);
            float4 b_high = *reinterpret_cast<const float4*>(&b_tile[k][64 + tx * 4]);
            float rows[8] = {a_low.x, a_low.y, a_low.z, a_low.w, a_high.x, a_high.y, a_high.z, a_high.w};
            float columns[8] = {b_low.x, b_low.y, b_low.z, b_low.w, b_high.x, b_high.y, b_high.z, b_high.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] += rows[i] * columns[j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            int m = m0 + i / 4 * 64 + ty * 4 + i % 4;
            int n = n0 + j / 4 * 64 + tx * 4 + j % 4;
            if (m < M && n < N) {
                c[(long long)m * N + n] = __float2half(sum[i][j]);
            }
        }
    }
}

// -- 4. the same tile of c on the tensor cores -------------------------------------------------------------------

// Eight warps, 2 down and 4 across; each has 64x32 of c as 4x4 pieces of 16x8, the shape of mma.m16n8k16. Tiles stay
// float16 in shared memory. Their pitches are 8 elements more than a row: the eight rows of 16 bytes that ldmatrix
// reads at once then lie in 32 different banks (20 r and 4 r words modulo 32).
constexpr int MMA_K = 32;             // columns of a, rows of b in a tile: two steps of 16
constexpr int A_PITCH = MMA_K + 8;    // 80 bytes
constexpr int B_PITCH = BLOCK_N + 8;  // 272 bytes
constexpr int A_TILE = BLOCK_M * A_PITCH;
constexpr int B_TILE = MMA_K * B_PITCH;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Four 8x8 matrices; lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const __half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_matrices_turned(unsigned (&to)[4], const __half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One warp's share of one pair of tiles.
__device__ __forceinline__ void multiply_tiles(
    float (&sum)[4][4][4], const __half* a_tile, const __half* b_tile, int warp_m, int warp_n, int lane) {
#pragma unroll
    for (int k = 0; k < MMA_K; k += 16) {
        unsigned a[4][4];
        unsigned b[2][4];  // two pieces of 8 columns each
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15
            load_matrices(a[i], a_tile + (warp_m + i * 16 + lane % 16) * A_PITCH + k + lane / 16 * 8);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {  // matrices: k 0-7 and 8-15 of columns 0-7, then of columns 8-15
            load_matrices_turned(b[j], b_tile + (k + lane % 16) * B_PITCH + warp_n + j * 16 + lane / 16 * 8);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                multiply_add(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}

// A piece of 16x8: lane l holds columns 2 (l % 4) and the next of row l / 4 (sums 0 and 1) and of row l / 4 + 8 (sums
// 2 and 3).
__device__ __forceinline__ void store_sums(
    __half* c, const float (&sum)[4][4][4], int first_m, int first_n, int lane, int M, int N) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                int m = first_m + i * 16 + lane / 4 + part / 2 * 8;
                int n = first_n + j * 8 + lane % 4 * 2 + part % 2;
                if (m < M && n < N) {
                    c[(long long)m * N + n] = __float2half(sum[i][j][part]);
                }
            }
        }
    }
}

// One pair of tiles, filled and used in turn: nobody multiplies while the block loads.
extern "C" __global__ __launch_bounds__(THREADS, 2) void gemm_tensor_cores(
    __half* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int M, int N, int K,
    int vector) {
    __shared__ __align__(16) __half a_tile[A_TILE];
    __shared__ __align__(16) __half b_tile[B_TILE];
    int tid = threadIdx.x;
    int lane = tid % 32;
    int warp_m = tid / 32 / 4 * 64;
    int warp_n = tid / 32 % 4 * 32;
    int m0 = blockIdx.y * BLOCK_M;
    int n0 = blockIdx.x * BLOCK_N;
    float sum[4][4][4] = {};

    for (int k0 = 0; k0 < K; k0 += MMA_K) {
#pragma unroll
        for (int pass = 0; pass < 2; ++pass) {  // 128 x 32 of a, 32 x 128 of b: two times eight elements of each
            int a_row = pass * 64 + tid / 4;
            int a_column = tid % 4 * 8;
            int b_row = pass * 16 + tid / 16;
            int b_column = tid % 16 * 8;
            *reinterpret_cast<uint4*>(a_tile + a_row * A_PITCH + a_column) =
                load_eight(a, m0 + a_row, k0 + a_column, M, K, vector);
            *reinterpret_cast<uint4*>(b_tile + b_row * B_PITCH + b_column) =
                load_eight(b, k0 + b_row, n0 + b_column, K, N, vector);
        }
        __syncthreads();
        multiply_tiles(sum, a_tile, b_tile, warp_m, warp_n, lane);
        __syncthreads();
    }
    store_sums(c, sum, m0 + warp_m, n0 + warp_n, lane, M, N);
}

// -- 5. the same, with the next tiles on their way ---------------------------------------------------------------

// Pairs of tiles in shared memory: STAGES - 1 of them are being loaded while one is used.
#ifndef STAGES
#define STAGES 4
#endif

// Eight elements straight into shared memory, asynchronously: 16 bytes past the registers and the L1. Beyond the edge
// the hardware writes zeros (a source size of 0 reads nothing; the address is kept inside the matrix all the same).
__device__ __forceinline__ void copy_eight(
    __half* to, const __half* base, int row, int column, int rows, int columns, bool vector) {
    if (vector) {
        bool inside = row < rows && column < columns;
        const __half* from = inside ? base + (long long)row * columns + column : base;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                     "r"(inside ? 16 : 0)
                     : "memory");
    } else {
        *reinterpret_cast<uint4*>(to) = load_eight(base, row, column, rows, columns, false);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 2) void gemm_pipelined(
    __half* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int M, int N, int K,
    int vector) {
    extern __shared__ __align__(16) __half tiles[];  // STAGES x (A_TILE + B_TILE)
    int tid = threadIdx.x;
    int lane = tid % 32;
    int warp_m = tid / 32 / 4 * 64;
    int warp_n = tid / 32 % 4 * 32;
    int m0 = blockIdx.y * BLOCK_M;
    int n0 = blockIdx.x * BLOCK_N;
    int steps = (K + MMA_K - 1) / MMA_K;
    float sum[4][4][4] = {};

    auto fetch = [&](int step) {
        __half* a_tile = tiles + step % STAGES * (A_TILE + B_TILE);
        __half* b_tile = a_tile + A_TILE;
#pragma unroll
        for (int pass = 0; pass < 2; ++pass) {
            int a_row = pass * 64 + tid / 4;
            int a_column = tid % 4 * 8;
            int b_row = pass * 16 + tid / 16;
            int b_column = tid % 16 * 8;
            copy_eight(a_tile + a_row * A_PITCH + a_column, a, m0 + a_row, step * MMA_K + a_column, M, K, vector);
            copy_eight(b_tile + b_row * B_PITCH + b_column, b, step * MMA_K + b_row, n0 + b_column, K, N, vector);
        }
    };
    // A group per step, empty ones at the end too: so "all but the newest STAGES - 2" always means this step's tiles.
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) {
            fetch(step);
        }
        commit();
    }
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");  // what this thread copied has landed
        __syncthreads();  // and everybody's has; and everybody is done with the tiles of the step before
        if (step + STAGES - 1 < steps) {
            fetch(step + STAGES - 1);  // into the place of the step before
        }
        commit();
        const __half* a_tile = tiles + step % STAGES * (A_TILE + B_TILE);
        multiply_tiles(sum, a_tile, a_tile + A_TILE, warp_m, warp_n, lane);
    }
    store_sums(c, sum, m0 + warp_m, n0 + warp_n, lane, M, N);
}
