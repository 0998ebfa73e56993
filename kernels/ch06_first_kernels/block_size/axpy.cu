// z = a * x + y for float32, one dimension. The kernels differ in how much a thread asks of memory at once; how many
// threads make a block is decided by whoever launches them.
//
// Offsets are 64-bit: 2^31 elements are 8 GB, which fit on the GPU.

// One element per thread: two loads of 4 bytes, then one store.
extern "C" __global__ void axpy(float* __restrict__ z, const float* __restrict__ x, const float* __restrict__ y, float a,
                                long long N) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        z[i] = a * x[i] + y[i];
    }
}

// Four elements per thread: two loads of 16 bytes, then one store. All three arrays begin at a multiple of 16 bytes.
extern "C" __global__ void axpy_wide(float* __restrict__ z, const float* __restrict__ x, const float* __restrict__ y,
                                     float a, long long N) {
    long long i = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 <= N) {
        float4 u = *reinterpret_cast<const float4*>(x + i);
        float4 v = *reinterpret_cast<const float4*>(y + i);
        float4 w = {a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w};
        *reinterpret_cast<float4*>(z + i) = w;
    } else {
        for (; i < N; ++i) {  // the last one, two or three elements: at most one thread of the grid comes here
            z[i] = a * x[i] + y[i];
        }
    }
}
