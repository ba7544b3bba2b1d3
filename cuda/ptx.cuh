/*!
Wrappers of single PTX instructions that several kernels use, and what the lanes of a warp compute
together. A source that needs them includes them first. A "unit" is 16 bytes.
*/

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short f16;

// ---- primitives (PTX ISA 7.4, sm_80) ----

/// The address of shared memory as instructions take it.
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void warp_barrier() { __syncwarp(); }
__device__ __forceinline__ void block_barrier() { __syncthreads(); }
/// A zero that is known behind a barrier of the block only. ptxas moves no loads across a barrier, but
/// what depends on them it does: not what this is added to.
__device__ __forceinline__ int zero_behind_barrier() { return __syncthreads_or(0); }
/// What the lane has whose number differs in the bits of `mask`.
template <class T>
__device__ __forceinline__ T from_lane(T x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
__device__ __forceinline__ bool any_lane(bool p) { return __any_sync(0xffffffffu, p); }

// Programmatic dependent launch (PDL, cuda/README.md): on sm 90 and newer a kernel may start while the
// previous one still runs. The PTX is for sm 80, which has no such instructions, so it has them as
// comments that crates/kernels/src/dependent.rs makes instructions of where the GPU has them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FROM_SM_90(instruction) asm volatile(instruction ::: "memory")
#else
#define FROM_SM_90(instruction) asm volatile("// sm_90: " instruction ::: "memory")
#endif
/// Waits until all previous kernels have ended and their stores are visible. Every thread calls it on
/// every path, before it reads what a kernel wrote (never by `.nc` loads, which the compiler may move),
/// and before it writes anything.
__device__ __forceinline__ void dependent_wait() { FROM_SM_90("griddepcontrol.wait;"); }
/// Lets the next kernel start as soon as all blocks have called this or ended.
__device__ __forceinline__ void dependent_launch() { FROM_SM_90("griddepcontrol.launch_dependents;"); }

/// The compiler no longer knows how `x` was computed, and keeps no part of it.
__device__ __forceinline__ void forget(int& x) { asm volatile("" : "+r"(x)); }
/// Four words of shared memory.
__device__ __forceinline__ void load_shared(u32 (&r)[4], u32 address) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
/// The same as one unit.
__device__ __forceinline__ uint4 shared_unit(u32 address) {
    u32 r[4];
    load_shared(r, address);
    return make_uint4(r[0], r[1], r[2], r[3]);
}
/// Four floats of shared memory.
__device__ __forceinline__ float4 load_shared_floats(u32 address) {
    float4 r;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "r"(address)
                 : "memory");
    return r;
}
/// Four halves of shared memory.
__device__ __forceinline__ uint2 shared_halves(u32 address) {
    uint2 r;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(address) : "memory");
    return r;
}
/// Two floats of shared memory.
__device__ __forceinline__ float2 load_shared_pair(u32 address) {
    float2 r;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address) : "memory");
    return r;
}
/// A float of shared memory.
__device__ __forceinline__ float load_shared_float(u32 address) {
    float r;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(r) : "r"(address) : "memory");
    return r;
}
/// A word of shared memory.
__device__ __forceinline__ u32 shared_word(u32 address) {
    u32 r;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(address) : "memory");
    return r;
}
/// Stores four words in shared memory.
__device__ __forceinline__ void store_shared(u32 address, const u32 (&r)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}
/// Stores four halves in shared memory.
__device__ __forceinline__ void store_shared_halves(u32 address, uint2 halves) {
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(halves.x), "r"(halves.y) : "memory");
}
/// Stores a word in shared memory.
__device__ __forceinline__ void store_shared_word(u32 address, u32 word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}
/// Stores a float in shared memory.
__device__ __forceinline__ void store_shared_float(u32 address, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
/// Stores two floats in shared memory.
__device__ __forceinline__ void store_shared_pair(u32 address, float2 pair) {
    asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(pair.x), "f"(pair.y) : "memory");
}
/// Stores four floats in shared memory.
__device__ __forceinline__ void store_shared_floats(u32 address, float4 x) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(x.x), "f"(x.y), "f"(x.z),
                 "f"(x.w)
                 : "memory");
}

// Loads of constants. Asked for where they stand, so that they are there when they are used; but
// ptxas moves them behind a wait for the previous kernel.

__device__ __forceinline__ float load_float(const float* from) {
    float r;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(r) : "l"(from));
    return r;
}
__device__ __forceinline__ float2 load_pair(const float* from) {
    float2 r;
    asm volatile("ld.global.nc.v2.f32 {%0,%1}, [%2];" : "=f"(r.x), "=f"(r.y) : "l"(from));
    return r;
}
__device__ __forceinline__ float4 load_floats(const float* from) {
    float4 r;
    asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "l"(from));
    return r;
}

// Coherent loads, which stay behind barriers and waits: of tensors that an earlier kernel wrote, and
// of constants that are to be loaded where they stand. Constants may be loaded in front of the wait
// for the previous kernel. And stores.

__device__ __forceinline__ float load_coherent_float(const float* from) {
    float r;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(r) : "l"(from) : "memory");
    return r;
}
__device__ __forceinline__ float2 load_coherent_pair(const float* from) {
    float2 r;
    asm volatile("ld.global.v2.f32 {%0,%1}, [%2];" : "=f"(r.x), "=f"(r.y) : "l"(from) : "memory");
    return r;
}
__device__ __forceinline__ float4 load_coherent_floats(const float* from) {
    float4 r;
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "l"(from)
                 : "memory");
    return r;
}
/// Four halves.
__device__ __forceinline__ uint2 load_halves(const f16* from) {
    uint2 r;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(from) : "memory");
    return r;
}
/// Eight halves, as a fragment's words or as one unit.
__device__ __forceinline__ void load_coherent(u32 (&r)[4], const f16* from) {
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "l"(from)
                 : "memory");
}
__device__ __forceinline__ uint4 load_unit(const f16* from) {
    u32 r[4];
    load_coherent(r, from);
    return make_uint4(r[0], r[1], r[2], r[3]);
}
/// Eight halves, with the 128 bytes around them for the L2 cache.
__device__ __forceinline__ void load_line(u32 (&r)[4], const f16* from) {
    asm volatile("ld.global.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "l"(from)
                 : "memory");
}
__device__ __forceinline__ void store_pair(float* to, float2 x) {
    asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(to), "f"(x.x), "f"(x.y) : "memory");
}
/// One store: the compiler would split it in four.
__device__ __forceinline__ void store_unit(void* to, uint4 x) {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}
/// Asks the L2 cache for the 128 bytes around this address.
__device__ __forceinline__ void prefetch(const void* from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

/// 1 / x, approximately.
__device__ __forceinline__ float reciprocal(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
/// 1 / sqrt(x), approximately; the second takes subnormal numbers for 0.
__device__ __forceinline__ float reciprocal_root(float x) { return rsqrtf(x); }
__device__ __forceinline__ float reciprocal_root_ftz(float x) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
/// The sums of two pairs of f16, rounded once. `sum_of_halves` (arithmetic.cuh) gives the same, on
/// the host too.
__device__ __forceinline__ u32 add_halves(u32 a, u32 b) {
    u32 r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/// `b` if `second`, else `a`, without a branch.
__device__ __forceinline__ float either(bool second, float a, float b) {
    float r;
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; selp.f32 %0, %2, %1, p; }"
        : "=f"(r)
        : "f"(a), "f"(b), "r"((u32)second));
    return r;
}

// ---- lanes ----

/// The sum, and the greatest, of what TO / FROM lanes of a warp have: lanes whose numbers differ in
/// the bits from FROM to TO / 2. All of them get it.
template <int FROM, int TO>
__device__ __forceinline__ float sum_of_lanes(float x) {
#pragma unroll
    for (int mask = FROM; mask < TO; mask *= 2) x += from_lane(x, mask);
    return x;
}
template <int FROM, int TO>
__device__ __forceinline__ float most_of_lanes(float x) {
#pragma unroll
    for (int mask = FROM; mask < TO; mask *= 2) x = fmaxf(x, from_lane(x, mask));
    return x;
}
/// Of TO lanes, each of which has the mean of COUNT numbers and the sum of their squared differences
/// from it: both of all numbers, for all of the lanes.
template <int TO, int COUNT>
__device__ __forceinline__ void merge_moments(float& mean, float& squares) {
#pragma unroll
    for (int mask = 1; mask < TO; mask *= 2) {
        float other = from_lane(mean, mask), more = from_lane(squares, mask), apart = other - mean;
        mean = (mean + other) * 0.5f;
        squares = (squares + more) + apart * apart * (mask * (COUNT * 0.5f));
    }
}
