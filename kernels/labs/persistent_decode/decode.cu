// All tokens of a recurrent decoder in one kernel. Every block owns some rows of the weights for the whole time; what
// blocks have to tell each other goes through the L2, and a barrier over the grid says when it is complete: two per
// token, about as dear as two nodes of a CUDA graph, but nothing has to be loaded again behind it.
//
// A barrier over the grid needs every block to be running. The caller must not start more blocks than fit the GPU at
// once, and nothing else may hold multiprocessors that it counts on: a block that waits for one that cannot start
// waits for ever.

#ifndef WEIGHTS_IN_SHARED
#define WEIGHTS_IN_SHARED 1
#endif

#define THREADS 512
#define WARPS (THREADS / 32)
#define MOST_POLLS (1 << 23)  // some 5 s: a deadlock becomes an error that can be read

// Weights: from shared memory, where they were put once, or from the L2 in every token. ld.global.cg passes the L1 by.
__device__ __forceinline__ float weight(const float* w) {
#if WEIGHTS_IN_SHARED
    return *w;
#else
    return __ldcg(w);
#endif
}

__device__ __forceinline__ float warp_sum(float part) {
    for (int distance = 16; distance > 0; distance /= 2) {
        part += __shfl_xor_sync(0xffffffffu, part, distance);
    }
    return part;  // in every lane
}

// What every block wrote before is seen by every block behind it. `arrivals` only grows: the k-th barrier waits for
// k * gridDim.x, so nobody has to reset it between two barriers, and no block can mistake one for the other.
__device__ __forceinline__ void grid_barrier(int* arrivals, int expected) {
    __syncthreads();  // all warps of this block have written
    if (threadIdx.x == 0) {
        // Their writes, which the __syncthreads ordered before this thread, are made visible to the GPU, then counted.
        __threadfence();
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(__cvta_generic_to_global(arrivals)) : "memory");
        int seen;
        int polls = 0;
        do {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(__cvta_generic_to_global(arrivals))
                         : "memory");
            if (++polls > MOST_POLLS) {
                __trap();
            }
        } while (seen < expected);
    }
    __syncthreads();  // the other warps wait for thread 0
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void decode_persistent(
    float* y,         // [G, D]: the states; a row is an output, and the next token's input
    float* a,         // [F]: the activations between the two products
    int* arrivals,    // zero when the kernel starts
    const float* __restrict__ x,          // [G, D]
    const float* __restrict__ h0,         // [D]
    const float* __restrict__ w_gate_up,  // [2 F, D]
    const float* __restrict__ w_down,     // [D, F]
    int G, int D, int F, float eps, float leak) {
    extern __shared__ float memory[];
    __shared__ float partial[WARPS];
    float* v = memory;   // [D]: state plus embedding
    float* act = v + D;  // [F]: this block's copy of a

    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int rows_f = (F + gridDim.x - 1) / gridDim.x;
    int rows_d = (D + gridDim.x - 1) / gridDim.x;
    int f0 = min((int)blockIdx.x * rows_f, F), f1 = min(f0 + rows_f, F);
    int d0 = min((int)blockIdx.x * rows_d, D), d1 = min(d0 + rows_d, D);

    const float* gate = w_gate_up + (size_t)f0 * D;
    const float* up = w_gate_up + (size_t)(F + f0) * D;
    const float* down = w_down + (size_t)d0 * F;
#if WEIGHTS_IN_SHARED
    // Once for all tokens. The rows of a block lie side by side, so three plain copies do it; the first barrier below
    // (inside the sum of the squares) comes before anybody reads them.
    float* own_gate = act + F;
    float* own_up = own_gate + rows_f * D;
    float* own_down = own_up + rows_f * D;
    for (int i = threadIdx.x; i < (f1 - f0) * D; i += THREADS) {
        own_gate[i] = gate[i];
        own_up[i] = up[i];
    }
    for (int i = threadIdx.x; i < (d1 - d0) * F; i += THREADS) {
        own_down[i] = down[i];
    }
    gate = own_gate;
    up = own_up;
    down = own_down;
#endif

    int barriers = 0;
    for (int t = 0; t < G; ++t) {
        // The whole state, by every block again: 4 KiB from the L2, and the norm needs no barrier of its own. __ldcg,
        // because other multiprocessors wrote it while this kernel ran and an L1 does not hear of that.
        const float* h = t == 0 ? h0 : y + (size_t)(t - 1) * D;
        float squares = 0.0f;
        for (int d = threadIdx.x; d < D; d += THREADS) {
            float sum = __ldcg(h + d) + x[(size_t)t * D + d];
            v[d] = sum;
            squares += sum * sum;
        }
        squares = warp_sum(squares);
        if (lane == 0) {
            partial[warp] = squares;
        }
        __syncthreads();
        squares = 0.0f;
        for (int i = 0; i < WARPS; ++i) {
            squares += partial[i];
        }
        float scale = rsqrtf(squares / D + eps);

        // A warp per row of the gate and the same row of up: one element of v serves both.
        for (int f = f0 + warp; f < f1; f += WARPS) {
            const float* g = gate + (size_t)(f - f0) * D;
            const float* u = up + (size_t)(f - f0) * D;
            float g_sum = 0.0f, u_sum = 0.0f;
#pragma unroll 8
            for (int d = lane; d < D; d += 32) {
                float element = v[d];
                g_sum += weight(g + d) * element;
                u_sum += weight(u + d) * element;
            }
            g_sum = warp_sum(g_sum) * scale;
            u_sum = warp_sum(u_sum) * scale;
            if (lane == 0) {
                a[f] = g_sum / (1.0f + expf(-g_sum)) * u_sum;
            }
        }
        grid_barrier(arrivals, ++barriers * gridDim.x);

        for (int f = threadIdx.x; f < F; f += THREADS) {
            act[f] = __ldcg(a + f);
        }
        __syncthreads();
        for (int d = d0 + warp; d < d1; d += WARPS) {
            const float* w = down + (size_t)(d - d0) * F;
            float sum = 0.0f;
#pragma unroll 16
            for (int f = lane; f < F; f += 32) {
                sum += weight(w + f) * act[f];
            }
            sum = warp_sum(sum);
            if (lane == 0) {
                y[(size_t)t * D + d] = sum + leak * v[d];
            }
        }
        if (t + 1 < G) {  // the end of the kernel is the last barrier
            grid_barrier(arrivals, ++barriers * gridDim.x);
        }
    }
}
