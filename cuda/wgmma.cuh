/*!
Hopper's instructions as functions: programmatic dependent launch, barriers in shared memory, named
barriers between warpgroups, register reallocation, and `wgmma` with its matrix descriptors.
*/

// ---- primitives (PTX ISA 8.0, sm_90a) ----

/// Waits until the previous kernel has ended and its stores are visible; returns at once without
/// PDL (PTX ISA 7.8).
__device__ __forceinline__ void pdl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the next kernel begin, if it is launched with PDL: its blocks take the places of blocks
/// that end.
__device__ __forceinline__ void pdl_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Makes this thread's landed copies visible to the tensor cores' own way into shared memory.
__device__ __forceinline__ void copies_publish() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_create(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier)
                 : "memory");
}
/// Waits until the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra READY;\n"
        "bra AGAIN;\n"
        "READY: }" ::"r"(barrier), "r"(parity) : "memory");
}
/// Named barriers of two warpgroups: one waits, the other only arrives.
__device__ __forceinline__ void named_barrier_sync(int barrier) {
    asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int barrier) {
    asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory");
}
template <int REGISTERS>
__device__ __forceinline__ void registers_release() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void registers_claim() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LATEST>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATEST) : "memory");
}
/// Keeps the compiler from moving uses of accumulators across a wait.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
/// Forces the sums of the softmax weights, and so all weights, to be computed before the next wait.
/// The compiler would move them after it, as no visible effect needs them earlier: here a store to
/// `unused`, which happens only for a sum below 0, and so never.
__device__ __forceinline__ void before_waiting(const float (&sum)[2], u32 unused) {
    asm volatile(
        "{ .reg .pred p, q; setp.lt.f32 p, %0, 0f00000000; setp.lt.or.f32 q, %1, 0f00000000, p; "
        "@q st.shared.f32 [%2], %0; }" ::
            "f"(sum[0]),
        "f"(sum[1]), "r"(unused)
        : "memory");
}

// An instruction names each of its accumulators in its text and once more as an operand.
#define NAMES_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_24 NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define NAMES_28 NAMES_24 ",%24,%25,%26,%27"
#define NAMES_32 NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_36 NAMES_32 ",%32,%33,%34,%35"
#define NAMES_40 NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define NAMES_48 NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES_56 NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define NAMES_64 NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_72 NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define NAMES_80 NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES_128 NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95" \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
    ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define OPERANDS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OPERANDS_8(i) OPERANDS_4(i), OPERANDS_4(i + 4)
#define OPERANDS_16(i) OPERANDS_4(i), OPERANDS_4(i + 4), OPERANDS_4(i + 8), OPERANDS_4(i + 12)
#define OPERANDS_24(i) OPERANDS_16(i), OPERANDS_4(i + 16), OPERANDS_4(i + 20)
#define OPERANDS_28(i) OPERANDS_24(i), OPERANDS_4(i + 24)
#define OPERANDS_32(i) OPERANDS_16(i), OPERANDS_16(i + 16)
#define OPERANDS_36(i) OPERANDS_32(i), OPERANDS_4(i + 32)
#define OPERANDS_40(i) OPERANDS_32(i), OPERANDS_4(i + 32), OPERANDS_4(i + 36)
#define OPERANDS_48(i) OPERANDS_32(i), OPERANDS_16(i + 32)
#define OPERANDS_56(i) OPERANDS_48(i), OPERANDS_8(i + 48)
#define OPERANDS_64(i) OPERANDS_32(i), OPERANDS_32(i + 32)
#define OPERANDS_72(i) OPERANDS_64(i), OPERANDS_8(i + 64)
#define OPERANDS_80(i) OPERANDS_64(i), OPERANDS_16(i + 64)
#define OPERANDS_128(i) OPERANDS_64(i), OPERANDS_64(i + 64)

/// d[64 x 2 R] (+)= a[64 x 16] b[2 R x 16]^T, both by descriptor; `add` 0 starts from zero. COLUMNS
/// is 2 R; A, B and ADD follow the accumulators.
#define WGMMA_SS(R, COLUMNS, A, B, ADD)                                                                      \
    __device__ __forceinline__ void wgmma_ss(float (&d)[R], u64 a, u64 b, int add) {                         \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS  \
                     "k16.f32.f16.f16 {" NAMES_##R "}, " A ", " B ", p, 1, 1, 0, 0; }"                       \
                     : OPERANDS_##R(0) : "l"(a), "l"(b), "r"(add));                                          \
    }
WGMMA_SS(8, "16", "%8", "%9", "%10")
WGMMA_SS(24, "48", "%24", "%25", "%26")
WGMMA_SS(32, "64", "%32", "%33", "%34")
WGMMA_SS(40, "80", "%40", "%41", "%42")
WGMMA_SS(48, "96", "%48", "%49", "%50")
WGMMA_SS(56, "112", "%56", "%57", "%58")
WGMMA_SS(64, "128", "%64", "%65", "%66")
WGMMA_SS(72, "144", "%72", "%73", "%74")
WGMMA_SS(80, "160", "%80", "%81", "%82")

/// d[64 x 2 R] += a[64 x 16] b[16 x 2 R], a in registers, b by descriptor.
#define WGMMA_RS(R, COLUMNS, A, B)                                                                           \
    __device__ __forceinline__ void wgmma_rs(float (&d)[R], const u32 (&a)[4], u64 b) {                      \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" COLUMNS        \
                     "k16.f32.f16.f16 {" NAMES_##R "}, {" A "}, " B ", p, 1, 1, 1; }"                        \
                     : OPERANDS_##R(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                \
    }
WGMMA_RS(28, "56", "%28,%29,%30,%31", "%32")
WGMMA_RS(32, "64", "%32,%33,%34,%35", "%36")
WGMMA_RS(36, "72", "%36,%37,%38,%39", "%40")
WGMMA_RS(40, "80", "%40,%41,%42,%43", "%44")
WGMMA_RS(48, "96", "%48,%49,%50,%51", "%52")
WGMMA_RS(64, "128", "%64,%65,%66,%67", "%68")
WGMMA_RS(128, "256", "%128,%129,%130,%131", "%132")

#define NAMES_96 NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define OPERANDS_96(i) OPERANDS_64(i), OPERANDS_32(i + 64)
WGMMA_SS(96, "192", "%96", "%97", "%98")
// ---- matrices ----

/// Descriptor of a swizzled chunk for `wgmma`: rows of 128 bytes, groups of eight rows 1024 bytes
/// apart; `next`: bytes to the chunk of the next 64 columns, where a product reads several.
__device__ __forceinline__ u64 descriptor(u32 address, u32 next = 16) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(next >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
/// Issues the product of STEPS x 16 columns of two swizzled chunks: sums[64 x 2 R] (+)= a b^T. ADD is
/// 0 to begin with zeros, a constant: sums need not be kept for it. Nothing but `wgmma` between fence
/// and commit: control flow there makes the compiler serialise them.
template <int STEPS, int ADD, int R>
__device__ __forceinline__ void wgmma_steps(float (&sums)[R], u64 a, u64 b) {
    settle(sums);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < STEPS; i++) wgmma_ss(sums, a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
    wgmma_commit();
}
