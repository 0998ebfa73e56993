// Work whose length is an argument. Every kernel also writes y[i] = 2 x[i], so that its output can be verified and does
// not depend on how long it worked: `zero` is 0 at run time, which the compiler cannot know.

// Waits by the GPU's own nanosecond timer, whatever the clock. The timer steps in 32 ns on an H100.
extern "C" __global__ void wait_ns(float* y, const float* x, int count, unsigned long long ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}

// One chain of dependent multiply-adds per thread, 10 a step: 4 cycles each, so the time follows the SM clock.
extern "C" __global__ void fma_chain(float* y, const float* x, int count, int steps, float zero) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float own = x[i % count];
    float sum = own;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int k = 0; k < 10; ++k) sum = fmaf(sum, 0.999f, 0.001f);  // tends to 1: finite however long
    }
    if (i < count) y[i] = fmaf(zero, sum, 2.0f * own);
}

// Reads `quads` groups of four floats, `passes` times over.
extern "C" __global__ void read_quads(float* y, const float4* x, int count, int quads, int passes, float zero) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    const int stride = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 4
        for (int i = first; i < quads; i += stride) {
            const float4 v = x[i];
            sum += v.x + v.y + v.z + v.w;
        }
    }
    if (first < count) y[first] = fmaf(zero, sum, 2.0f * reinterpret_cast<const float*>(x)[first]);
}
