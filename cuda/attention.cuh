/*!
Shared by the attention kernels: asynchronous copies, the tensor cores' instructions from sm 80 on,
the steps of the online softmax, a launch's arguments, the store of a row of O, and the
combination of splits. The mask decoder and the memory encoder use its primitives too.
*/

// ---- primitives (PTX ISA 7.4, sm_80) ----

/// Asynchronous copy of 16 bytes from global to shared memory; zeros where `valid` is false.
__device__ __forceinline__ void copy16(u32 to, const void* from, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy4(u32 to, const void* from, bool valid) {
    int bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `LATEST` of this thread's committed groups are still under way.
template <int LATEST>
__device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
}

// ---- tensor-core primitives ----

/// Four 8x8 matrices of f16; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}
/// c[16x8] += a[16x16] b[16x8].
__device__ __forceinline__ void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// c[16x8] += a[16x8] b[8x8]; of `a` the first two words.
__device__ __forceinline__ void multiply_add_eight(float (&c)[4], const u32 (&a)[4], u32 b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}
/// A warp's 8x8 matrix of f16, transposed: a lane has columns 2 (lane % 4) and the next one of row
/// lane / 4.
__device__ __forceinline__ u32 transposed(u32 matrix) {
    u32 r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(matrix));
    return r;
}

// ---- attention ----

/// Two rows' units as the left factor of a step's two products, and a unit as the right one.
__device__ __forceinline__ void multiply_step(float (&c)[4], const u32 (&upper)[4], const u32 (&lower)[4],
                                              const u32 (&b)[4], int half) {
    u32 a[4] = {upper[half * 2], lower[half * 2], upper[half * 2 + 1], lower[half * 2 + 1]};
    multiply_add(c, a, b[half * 2], b[half * 2 + 1]);
}

constexpr int CHUNK = 64;          // columns of a chunk: 128 bytes, eight 16-byte units
constexpr float NEVER = -1e30f;    // score of a key past the end; finite, so that no difference is a NaN
constexpr float NOTHING = -3e38f;  // maximum of no scores at all
constexpr float HEADROOM = 8.0f;   // the maximum may lag by this power of two before results are rescaled

/// Q and K of this width belong to memories and frames, whose rows are packed and as wide as the
/// matmul. Known to the compiler: with strides and widths from the launch, as heads have them,
/// these kernels were 5 % slower on an H200.
constexpr int PACKED_WIDTH = 256;

/// Where rows lie: elements from one row to the next, and from one batch (object or head) to the
/// next.
struct Rows {
    int row, batch;
};

/// The arguments of a launch; `partial` [batch, splits, m, DV] f32 and `stats` [batch, splits, m,
/// 2] f32 (maximum in powers of two, sum) are used only with more than one split:
/// `attention_combine_*` combines them.
struct Problem {
    const f16 *q, *k, *v;
    const float* bias;
    f16* out;
    float *partial, *stats;
    int m, n;
    int width, columns;  // of Q and K, of V and O, as memory has them: a kernel multiplies zeros beyond them
    Rows queries, keys, values, results;
};

/// 16-byte units of the chunk that begins at column FIRST of COLUMNS.
template <int COLUMNS, int FIRST>
__device__ __forceinline__ constexpr int units_of() {
    return (COLUMNS - FIRST < CHUNK ? COLUMNS - FIRST : CHUNK) / 8;
}

/// Lets a row's maximum, and its sum of weights, follow the greatest score `high`, both in powers of
/// two. What was summed before is to be multiplied with the result.
__device__ __forceinline__ float raise_maximum(float high, float& row_max, float& row_sum) {
    float next = fmaxf(row_max, high), scale = power_of_two(row_max - next);
    row_max = next;
    row_sum *= scale;
    return scale;
}
/// The same of a lane's two rows, where the maximum of any of the warp's lags by more than HEADROOM:
/// true then. Weights up to 2^8 are as exact in f16 as those up to 1, and most tiles need no
/// rescaling.
__device__ __forceinline__ bool raise_maxima(const float (&high)[2], float (&row_max)[2], float (&row_sum)[2],
                                             float (&scale)[2]) {
    bool rescale = any_lane(high[0] > row_max[0] + HEADROOM || high[1] > row_max[1] + HEADROOM);
    if (rescale) {
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = raise_maximum(high[h], row_max[h], row_sum[h]);
    }
    return rescale;
}
/// Two weights 2^(s log2 e - top) of row `h` of a fragment's scores, in halves. Their sum is added to
/// `row_sum` in f32.
__device__ __forceinline__ u32 weights_of(const float (&scores)[4], int h, float top, float& row_sum) {
    float low = power_of_two(fmaf(scores[2 * h], LOG2E, -top));
    float next = power_of_two(fmaf(scores[2 * h + 1], LOG2E, -top));
    row_sum += low + next;
    return to_f16x2(low, next);
}

/// Stores one row of O: the quotient if one block saw all keys, else its partial results (in padded
/// columns). Each of a quad's lanes holds columns 8 j + 2 (lane mod 4) and the next one, `at(j, 0)`
/// and `at(j, 1)`; `sum` is this lane's share of the row's weights.
template <int DV, bool PACKED, class At>
__device__ __forceinline__ void store_row(const Problem& p, int row, int lane, float top, float sum, At at) {
    sum = sum_of_lanes<1, 4>(sum);
    if (row >= p.m) return;
    int column = (lane & 3) * 2;
    if (gridDim.y == 1) {
        float share = 1.0f / sum;
        long long first = PACKED ? ((long long)blockIdx.z * p.m + row) * DV
                                 : (long long)blockIdx.z * p.results.batch + (long long)row * p.results.row;
        u32* to = (u32*)(p.out + first + column);
#pragma unroll
        for (int j = 0; j < DV / 8; j++)
            if (PACKED || j * 8 < p.columns) to[j * 4] = to_f16x2(at(j, 0) * share, at(j, 1) * share);
    } else {
        long long line = ((long long)blockIdx.z * gridDim.y + blockIdx.y) * p.m + row;
        float2* to = (float2*)(p.partial + line * DV + column);
#pragma unroll
        for (int j = 0; j < DV / 8; j++) to[j * 4] = make_float2(at(j, 0), at(j, 1));
        if ((lane & 3) == 0) ((float2*)p.stats)[line] = make_float2(top, sum);
    }
}

/// Part `part` of `parts` of the keys, as a range of tiles.
struct Tiles {
    int first, end;
    __device__ __forceinline__ Tiles(int keys, int tile, int part, int parts) {
        long long tiles = (keys + tile - 1) / tile;
        first = (int)(tiles * part / parts);
        end = (int)(tiles * (part + 1) / parts);
    }
};

/// Starts the copies of a block's queries, WIDTH columns each, into chunks of 64 columns; zeros in
/// rows and columns past the last.
template <int WIDTH, int QUERIES, int THREADS>
__device__ __forceinline__ void fetch_queries(const Problem& p, u32 shared) {
    constexpr bool PACKED = WIDTH == PACKED_WIDTH;
    const f16* q =
        p.q + (PACKED ? (long long)blockIdx.z * p.m * WIDTH : (long long)blockIdx.z * p.queries.batch);
    for (int i = threadIdx.x; i < QUERIES * (WIDTH / 8); i += THREADS) {
        int row = i / (WIDTH / 8), unit = i % (WIDTH / 8), query = blockIdx.x * QUERIES + row;
        bool valid = query < p.m && (PACKED || unit * 8 < p.width);
        u32 to = shared + (u32)((unit >> 3) * QUERIES + row) * 128 + (u32)((unit ^ row) & 7) * 16;
        const f16* from = q + (long long)(valid ? query : 0) * (PACKED ? WIDTH : p.queries.row) + unit * 8;
        copy16(to, PACKED || valid ? from : q, valid);
    }
    copies_commit();
}

/// Four columns of one row from the partial results of all parts: a thread's work in the kernel
/// that combines them. Reads go past the L1 cache: none of the results is needed twice.
template <int DV>
__device__ __forceinline__ void combine(const float* partial, const float* stats, f16* out, int rows, int m,
                                        int splits, int columns, Rows results) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, query = index / (DV / 4),
        column = index % (DV / 4) * 4;
    if (query >= rows || column >= columns) return;
    int batch = query / m, row = query % m;
    long long line = (long long)batch * splits * m + row;
    float top = NOTHING, total = 0.0f;
    for (int s = 0; s < splits; s++)
        top = fmaxf(top, __ldcg((const float2*)stats + line + (long long)s * m).x);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int s = 0; s < splits; s++) {
        long long at = line + (long long)s * m;
        float2 part = __ldcg((const float2*)stats + at);
        float4 value = __ldcg((const float4*)(partial + at * DV + column));
        float scale = power_of_two(part.x - top);
        total += part.y * scale;
        add_scaled(sum, value, scale);
    }
    float share = 1.0f / total;
    *(uint2*)(out + (long long)batch * results.batch + (long long)row * results.row + column) =
        make_uint2(to_f16x2(sum.x * share, sum.y * share), to_f16x2(sum.z * share, sum.w * share));
}
