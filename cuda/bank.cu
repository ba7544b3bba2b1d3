// The memory bank's state on the device: which frame comes next, what it reads, and where its pointer
// goes.
//
// One launch a frame each; sm 75 on.
//
// | kernel       | a thread's work    | threads | shared bytes |
// |--------------|--------------------|---------|--------------|
// | bank_reset   | the state          | 1       | 0            |
// | bank_inputs  | a slot or key      | 256     | 0            |
// | bank_advance | words of a pointer | 256     | 0            |
//
// The frame's number lives on the device, so that one recorded graph serves every frame. The rules are
// those of crates/vos/src/tracker/bank.rs: slot 0 is the conditioning frame's, the others are rings
// that are overwritten in place.
#include "common.cuh"

namespace {

// What an empty slot's keys are told apart by (EMPTY in src/selftest/bank_inputs.rs): far below
// every score.
const float EMPTY = -1e4f;

// How many frames before `t` the frame in ring slot `slot` was written; the slot is filled (slot <
// t) and not the first.
__device__ __forceinline__ i32 age_in_slot(i32 t, i32 slot, i32 slots) {
    return (t - 1 - slot) % (slots - 1) + 1;
}

}  // namespace

// `t`: frames so far. `greatest_age`: what pointer ages are divided by.
struct BankState {
    i32 t;
    float greatest_age;
};

// Begins a clip.
extern "C" __global__ void bank_reset(BankState* state, float greatest_age) {
    state->t = 0;
    state->greatest_age = greatest_age;
}

// What frame t reads. `pointer_times` and `bias` may be null. One thread a key, and one a slot.
extern "C" __global__ void __launch_bounds__(256)
    bank_inputs(const BankState* __restrict__ state, i32* __restrict__ temporal_rows,
                float* __restrict__ pointer_times, float* __restrict__ bias, i32 memories, i32 pointers,
                i32 memory_tokens, i32 pointer_tokens) {
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x), t = state->t;
    if (at < memories) {
        // The conditioning frame has the last row of the encoding, the latest frame the first.
        const i32 row = at == 0 ? memories - 1 : age_in_slot(t, at, memories) - 1;
        temporal_rows[at] = at < t ? row : 0;
    }
    if (pointer_times && at < pointers) {
        const i32 age = at == 0 ? t : age_in_slot(t, at, pointers);
        pointer_times[at] = at < t ? __fdiv_rn((float)age, state->greatest_age) : 0.0f;
    }
    const i32 memory_key_proj = memories * memory_tokens;
    if (bias && at < memory_key_proj + pointers * pointer_tokens) {
        const i32 slot = at < memory_key_proj ? at / memory_tokens : (at - memory_key_proj) / pointer_tokens;
        bias[at] = slot < t ? 0.0f : EMPTY;
    }
}

// Copies each object's pointer of frame t into its slot of the ring, then goes on to the next
// frame. One block.
extern "C" __global__ void __launch_bounds__(256)
    bank_advance(BankState* state, const u32* __restrict__ pointer, u32* __restrict__ ring, i32 pointers,
                 i32 words, i32 objects) {
    const i32 t = state->t;
    const i32 slot = t == 0 ? 0 : 1 + (t - 1) % (pointers - 1);
    for (i32 at = (i32)threadIdx.x; at < objects * words; at += (i32)blockDim.x) {
        const i32 object = at / words, word = at % words;
        ring[(object * pointers + slot) * words + word] = pointer[at];
    }
    // Every thread has read the frame's number before it changes.
    __syncthreads();
    if (threadIdx.x == 0) state->t = t + 1;
}
