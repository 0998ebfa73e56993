// Four ways to write y[c][r] = x[r][c] for float32, one block of 32x8 threads per 32x32 tile.
//
// The grid, the block and the four elements per thread are the same in every kernel: only the road from x
// to y differs. A warp is one row of the block (32 threads, threadIdx.x), so "the warp reads a row of x" means
// 32 neighbouring floats, 128 bytes, one request. x is [M, N], y is [N, M], both row-major. Offsets are 64-bit:
// 65536 x 65536 is more elements than an int can count.

constexpr int TILE = 32;  // one warp wide
constexpr int ROWS = 8;   // blockDim.y: each thread moves TILE / ROWS elements

// Floats from one row of the shared tile to the next. Shared memory has 32 banks of 4 bytes: with a pitch of 32
// a column of the tile lies in a single bank and its 32 reads queue up; with 33 it visits all 32 banks.
#ifndef PITCH
#define PITCH 33
#endif

// Reads rows of x, writes columns of y: the 32 stores of a warp go to 32 different cache lines, M floats apart.
extern "C" __global__ void transpose_naive(float* __restrict__ y, const float* __restrict__ x, int M, int N) {
    int c = blockIdx.x * TILE + threadIdx.x;
    int r = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        if (r + i < M && c < N) {
            y[(long long)c * M + r + i] = x[(long long)(r + i) * N + c];
        }
    }
}

// Turns the tile in shared memory, so that both the loads from x and the stores to y run along rows.
extern "C" __global__ void transpose_tiled(float* __restrict__ y, const float* __restrict__ x, int M, int N) {
    __shared__ float tile[TILE][PITCH];

    int c = blockIdx.x * TILE + threadIdx.x;
    int r = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        if (r + i < M && c < N) {
            tile[threadIdx.y + i][threadIdx.x] = x[(long long)(r + i) * N + c];
        }
    }

    __syncthreads();  // the tile is read by other warps than wrote it

    // The block's place in y is its place in x mirrored; threadIdx.x still runs along memory.
    int yc = blockIdx.y * TILE + threadIdx.x;
    int yr = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        if (yr + i < N && yc < M) {
            y[(long long)(yr + i) * M + yc] = tile[threadIdx.x][threadIdx.y + i];
        }
    }
}

// As transpose_tiled with a pitch of 32, but element (row, col) is kept in column col ^ row. Within a row that is a
// permutation, and down a column the 32 rows name 32 different banks: no conflict and no spare column.
extern "C" __global__ void transpose_swizzled(float* __restrict__ y, const float* __restrict__ x, int M, int N) {
    __shared__ float tile[TILE][TILE];

    int c = blockIdx.x * TILE + threadIdx.x;
    int r = blockIdx.y * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        int row = threadIdx.y + i;
        if (r + i < M && c < N) {
            tile[row][threadIdx.x ^ row] = x[(long long)(r + i) * N + c];
        }
    }

    __syncthreads();

    int yc = blockIdx.y * TILE + threadIdx.x;
    int yr = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += ROWS) {
        int col = threadIdx.y + i;
        if (yr + i < N && yc < M) {
            y[(long long)(yr + i) * M + yc] = tile[threadIdx.x][col ^ threadIdx.x];
        }
    }
}
