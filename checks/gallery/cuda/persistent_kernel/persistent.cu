// y = 64 steps of v = v * x + 0.5, three ways: a thread per element, blocks that stay for one call, blocks that stay.

__device__ float steps(float x) {
    float v = x;
    for (int i = 0; i < 64; i++) v = v * x + 0.5f;
    return v;
}

__device__ unsigned long long now_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void plain(float* __restrict__ y, const float* __restrict__ x, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = steps(x[i]);
}

// Blocks take tiles of blockDim.x elements from a counter, which starts at zero, until there are none left.
extern "C" __global__ void queue(float* __restrict__ y, const float* __restrict__ x, long long n, int* next) {
    __shared__ int tile;
    while (true) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        long long i = tile * (long long)blockDim.x + threadIdx.x;
        if (tile * (long long)blockDim.x >= n) return;
        if (i < n) y[i] = steps(x[i]);
        __syncthreads();  // all have read `tile`
    }
}

// Stays: serves whenever the bell has moved on from `served`, leaves when it has not for idle_ns.
extern "C" __global__ void serve(float* y, const float* x, long long n, const volatile int* bell, int served,
                                 unsigned long long idle_ns) {
    __shared__ int asked;
    unsigned long long last = now_ns();
    while (true) {
        if (threadIdx.x == 0) {
            int seen = *bell;
            while (seen == served && now_ns() - last < idle_ns) {
                __nanosleep(200);
                seen = *bell;
            }
            asked = seen;
        }
        __syncthreads();
        int wanted = asked;
        __syncthreads();  // all have read `asked`
        if (wanted == served) return;
        served = wanted;
        const volatile float* fresh = x;  // not what L1 kept from the call before
        for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
             i += gridDim.x * (long long)blockDim.x) {
            y[i] = steps(fresh[i]);
        }
        last = now_ns();
    }
}
