// Eight fields of a record, 32 bytes, taken apart into eight arrays: y[f][m] = x[m][f] for float32.
//
// One thread per record. A record is one sector of 32 bytes, the smallest piece that HBM and the L2 deliver. x is
// [M, 8], 16-byte aligned, y is [8, M]. Offsets are 64-bit: 8 * M passes 2^31 early.

constexpr int FIELDS = 8;

// One field: a warp's load touches 32 sectors and keeps 4 bytes of each. The grid's y is the field.
extern "C" __global__ void one_field(float* __restrict__ y, const float* __restrict__ x, long long M) {
    long long m = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (m < M) {
        y[blockIdx.y * M + m] = x[m * FIELDS + blockIdx.y];
    }
}

// All fields: the thread loads its sector whole, as two times 16 bytes, and keeps it in eight registers. Each of the
// eight stores of a warp is 128 bytes in a row.
extern "C" __global__ void whole_record(float* __restrict__ y, const float4* __restrict__ x, long long M) {
    long long m = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (m < M) {
        float4 low = x[2 * m];
        float4 high = x[2 * m + 1];
        y[0 * M + m] = low.x;
        y[1 * M + m] = low.y;
        y[2 * M + m] = low.z;
        y[3 * M + m] = low.w;
        y[4 * M + m] = high.x;
        y[5 * M + m] = high.y;
        y[6 * M + m] = high.z;
        y[7 * M + m] = high.w;
    }
}
