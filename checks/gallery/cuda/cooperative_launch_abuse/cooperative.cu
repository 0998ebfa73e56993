// y = 64 steps of v = v * x + 0.5; `halves` does the first 32, waits for all blocks, and does the rest.

extern "C" __global__ void plain(float* __restrict__ y, const float* __restrict__ x, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int s = 0; s < 64; s++) v = v * x[i] + 0.5f;
    y[i] = v;
}

// `arrived` counts blocks and starts at zero. All blocks must be on the GPU at once: launch it cooperatively.
extern "C" __global__ void halves(float* y, const float* x, long long n, unsigned* arrived) {
    long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    long long stride = gridDim.x * (long long)blockDim.x;
    for (long long i = first; i < n; i += stride) {
        float v = x[i];
        for (int s = 0; s < 32; s++) v = v * x[i] + 0.5f;
        y[i] = v;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*(volatile unsigned*)arrived < gridDim.x) __nanosleep(100);
    }
    __syncthreads();
    for (long long i = first; i < n; i += stride) {
        float v = y[i];
        for (int s = 0; s < 32; s++) v = v * x[i] + 0.5f;
        y[i] = v;
    }
}
