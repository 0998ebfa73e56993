// y = b + g * (x - b) for float32: three loads, three operations in registers, one store.
//
// Each thread takes four neighbouring elements in loads of 16 bytes; all four arrays begin at a multiple of 16 bytes.

__device__ float blended(float x, float b, float g) { return b + g * (x - b); }

extern "C" __global__ void blend(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ b,
                                 const float* __restrict__ g, long long count) {
    long long i = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 4 <= count) {
        float4 p = *reinterpret_cast<const float4*>(x + i);
        float4 q = *reinterpret_cast<const float4*>(b + i);
        float4 r = *reinterpret_cast<const float4*>(g + i);
        float4 s = {blended(p.x, q.x, r.x), blended(p.y, q.y, r.y), blended(p.z, q.z, r.z), blended(p.w, q.w, r.w)};
        *reinterpret_cast<float4*>(y + i) = s;
    } else {
        for (; i < count; ++i) {  // the last one, two or three elements: at most one thread of the grid comes here
            y[i] = blended(x[i], b[i], g[i]);
        }
    }
}
