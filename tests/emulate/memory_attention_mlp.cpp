/*!
Runs the source of the memory attention's large matmuls (cuda/memory_attention_mlp.cu) on the CPU
(machine.h) and compares each with a float64 reference: rows that fill no tile, depths of one chunk
and of more than the ring has, copies that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "memory_attention_mlp.h"

template <class Kind>
static void gemm(const char* name, Epilogue epilogue, int broad, int rows, int columns, int depth,
                 bool late_copies) {
    late = late_copies;
    Halves x((size_t)rows * depth, 1), weight((size_t)columns * depth, 1 / sqrtf(depth));
    Halves residual((size_t)rows * columns, 1), out((size_t)rows * columns);
    Reals bias(columns, 0.3);
    depends_on(x, residual, out);
    const unsigned lines = (rows + TALL - 1) / TALL;
    const f16* added = epilogue == RESIDUAL ? residual.data() : nullptr;
    launch({lines, (unsigned)(columns / broad), 1}, GEMM_THREADS, Kind::BYTES, [&] {
        Kind().run({x.data(), weight.data(), bias.data(), added, out.data(), rows, columns, depth}, 1024);
    });
    Numbers wanted((size_t)rows * columns), t = x.values(), w = weight.values();
    for (size_t i = 0; i < wanted.size(); i++) {
        double sum = bias.at(i % columns) + dot(&t[i / columns * depth], &w[i % columns * depth], depth);
        wanted[i] = epilogue == RELU ? std::max(sum, 0.0) : sum + residual.at(i);
    }
    Shares of = shares_of(out, wanted, [](size_t) { return true; });
    printf("%s, %d x %d x %d, late %d: worst relative error %.2e, usual %.2e, %ld written beyond", name, rows,
           columns, depth, late_copies, of.worst, of.usual, out.beyond());
    verdict(exceeds(of.worst, 5.5e-4) || exceeds(of.usual, 2.5e-4) || out.beyond());
}

int main(int count, char** words) {
    auto up = [](int rows, int columns, int depth, bool late) {
        gemm<GemmUp>("memory_attention_mlp_up", RELU, UP_COLUMNS, rows, columns, depth, late);
    };
    auto residual = [](int rows, int columns, int depth, bool late) {
        gemm<GemmResidual>("memory_attention_residual", RESIDUAL, RESIDUAL_COLUMNS, rows, columns, depth,
                           late);
    };
    up(36, 128, 256, true), residual(36, 64, 64, true), residual(130, 128, 320, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true})
        for (int rows : {1, 128, 200})
            for (int depth : {64, 128, 192, 256, 512})
                up(rows, 256, depth, late_copies), residual(rows, 128, depth, late_copies);
}
