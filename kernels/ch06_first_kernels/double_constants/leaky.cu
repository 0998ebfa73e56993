// A leaky sum: `steps` times acc = acc * x + 0.1 for each float32 of x, from acc = 0.1.
//
// The kernels differ in the letters f, float and double alone. 0.1 without an f is a double, and C++ takes a float that
// meets a double to double as well. What that costs is decided where it happens: at every assignment to a float the
// value has to come back.

// Elements per thread, all loaded before the first is needed. With one, starting blocks would take longer than the bytes.
constexpr int EACH = 4;

// y = f(x) for every element.
template <typename Function>
__device__ void apply(float* __restrict__ y, const float* __restrict__ x, long long N, Function f) {
    long long first = (long long)blockIdx.x * EACH * blockDim.x + threadIdx.x;
    float v[EACH];
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        long long i = first + j * blockDim.x;
        v[j] = i < N ? x[i] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        long long i = first + j * blockDim.x;
        if (i < N) {
            y[i] = f(v[j]);
        }
    }
}

// acc is a float, 0.1 a double: per step one conversion up, one addition in fp64, one conversion down.
extern "C" __global__ void leaky_double_literal(float* __restrict__ y, const float* __restrict__ x, int steps,
                                                long long N) {
    apply(y, x, N, [=](float v) {
        float acc = 0.1;
        for (int step = 0; step < steps; ++step) {
            acc = acc * v + 0.1;
        }
        return acc;
    });
}

// acc is a double: one fused multiply-add in fp64 per step, and two conversions in all.
extern "C" __global__ void leaky_double_throughout(float* __restrict__ y, const float* __restrict__ x, int steps,
                                                   long long N) {
    apply(y, x, N, [=](double v) {
        double acc = 0.1;
        for (int step = 0; step < steps; ++step) {
            acc = acc * v + 0.1;
        }
        return acc;
    });
}

// All of it in fp32: one fused multiply-add per step.
extern "C" __global__ void leaky_float(float* __restrict__ y, const float* __restrict__ x, int steps, long long N) {
    apply(y, x, N, [=](float v) {
        float acc = 0.1f;
        for (int step = 0; step < steps; ++step) {
            acc = acc * v + 0.1f;
        }
        return acc;
    });
}
