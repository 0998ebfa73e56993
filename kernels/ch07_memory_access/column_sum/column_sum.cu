// The first thing that comes to mind: one thread per column, which walks down all rows.
//
// Every load is coalesced: the threads of a warp stand side by side and go down together, one line of 128 bytes per
// step. What is missing is parallelism: there are N threads in all, so N = 1024 columns keep 32 warps busy where the
// GPU has 132 SMs with room for 64 each.

// Loads in flight per thread, each with a sum of its own: one long chain of fp32 additions would wait for every
// load, and would lose digits to rounding as well.
constexpr int CHAINS = 8;

extern "C" __global__ void column_sum_thread(float* __restrict__ y, const float* __restrict__ x, int M, int N) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) {
        return;
    }
    float sum[CHAINS] = {};
    int m = 0;
    for (; m + CHAINS <= M; m += CHAINS) {
#pragma unroll
        for (int j = 0; j < CHAINS; ++j) {
            sum[j] += x[(long long)(m + j) * N + n];
        }
    }
    for (; m < M; ++m) {  // the last rows, fewer than CHAINS
        sum[0] += x[(long long)m * N + n];
    }
    float total = 0.0f;
#pragma unroll
    for (int j = 0; j < CHAINS; ++j) {
        total += sum[j];
    }
    y[n] = total;
}
