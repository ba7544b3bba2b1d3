/*!
Runs the source of RepViT's neck (cuda/repvit_neck.cu) on the CPU (machine.h) and compares its features with a float64 reference: maps that fill no tile,
sides that are no multiple of four, copies that come late, any number of columns.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "repvit_neck.h"
#include "repvit_packed.h"

const double WORST = 5.5e-4, USUAL = 2.5e-4;

/// Shared memory of a block, as crates/kernels/src/repvit/neck.rs computes it.
static u32 bytes_of(const Level& level, bool square) {
    const int groups = Share(level, square).groups, steps = (level.depth + 15) / 16, coarse = square ? (level.coarse_depth + 15) / 16 : 0;
    return groups * (GROUP * (steps * 32 + 16) + (square ? COARSE * (coarse * 32 + 16) : 0));
}

/// Planar; the coarser map, if there is one, for 2 x 2 of the result.
static Numbers product(Halves& tokens, Halves& weight, int columns, int depth, int side, int up) {
    Numbers y((size_t)columns * side * side), t = tokens.values(), w = weight.values();
    for (size_t i = 0; i < y.size(); i++) {
        const int at = i % (side * side), token = at / side / up * (side / up) + at % side / up;
        y[i] = dot(&t[(size_t)token * depth], &w[i / (side * side) * depth], depth);
    }
    return y;
}

static void test(int grid, std::array<int, 4> depths, std::array<int, 3> columns, bool late_copies) {
    late = late_copies;
    const int sides[4] = {4 * grid, 2 * grid, grid, grid / 2};
    auto map = [&](int i) { return Halves((size_t)sides[i] * sides[i] * depths[i], 1, 0.2); };
    auto weight = [&](int i) { return Halves(columns[std::min(i, 2)] * depths[i], 1 / sqrtf(depths[i])); };
    Halves m0 = map(0), m1 = map(1), m2 = map(2), m3 = map(3), w0 = weight(0), w1 = weight(1), w2 = weight(2), w3 = weight(3);
    auto out = [&](int i) { return Halves((size_t)sides[i] * sides[i] * columns[i]); };
    Halves hr0 = out(0), hr1 = out(1), feat = out(2), p0 = packed_left(w0, columns[0], depths[0]), p1 = packed_left(w1, columns[1], depths[1]);
    // [W | V]; V begins at a step.
    const int begin = (depths[2] + 15) / 16 * 16, both = begin + depths[3];
    Halves joined(columns[2] * both);
    joined.fill([&](size_t at) { const int c = at / both, k = at % both; return k < depths[2] ? w2[c * depths[2] + k] : k < begin ? (f16)0 : w3[c * depths[3] + k - begin]; });
    Halves p2 = packed_left(joined, columns[2], both);
    Reals b0(columns[0], 0.3), b1(columns[1], 0.3), b2(columns[2], 0.3);
    NeckProblem p{{m2.data(), p2.data(), b2.data(), feat.data(), m3.data(), grid, depths[2], columns[2], depths[3]},
                  {m1.data(), p1.data(), b1.data(), hr1.data(), nullptr, grid * 2, depths[1], columns[1], 0},
                  {m0.data(), p0.data(), b0.data(), hr0.data(), nullptr, grid * 4, depths[0], columns[0], 0}};
    const unsigned blocks = Share(p.feat, true).blocks + Share(p.hr1, false).blocks + Share(p.hr0, false).blocks;
    depends_on(m0, m1, m2, m3, hr0, hr1, feat);
    launch({blocks, 1, 1}, THREADS, std::max({bytes_of(p.feat, true), bytes_of(p.hr1, false), bytes_of(p.hr0, false)}), [&] { make_features(p, 1024); });
    Numbers wanted[3] = {product(m0, w0, columns[0], depths[0], sides[0], 1), product(m1, w1, columns[1], depths[1], sides[1], 1), product(m2, w2, columns[2], depths[2], grid, 1)};
    Numbers up = product(m3, w3, columns[2], depths[3], grid, 2);
    for (size_t i = 0; i < up.size(); i++) wanted[2][i] += up[i];
    Halves* found[3] = {&hr0, &hr1, &feat}; Reals* bias[3] = {&b0, &b1, &b2};
    for (int i = 0; i < 3; i++) {
        for (size_t at = 0; at < wanted[i].size(); at++) wanted[i][at] += bias[i]->at(at / (sides[i] * sides[i]));
        Shares of = shares_of(*found[i], wanted[i], [](size_t) { return true; });
        printf("repvit_neck, %d columns of %d x %d, late %d: worst relative error %.2e, usual %.2e, %ld written beyond", columns[i], sides[i], sides[i], late_copies, of.worst, of.usual, found[i]->beyond());
        verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || found[i]->beyond());
    }
}

int main(int count, char** words) {
    test(6, {16, 24, 40, 72}, {8, 40, 72}, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true}) {
        for (int grid : {2, 4, 10, 16}) test(grid, {16, 24, 40, 64}, {16, 24, 136}, late_copies);
        test(16, {48, 96, 192, 384}, {32, 64, 256}, late_copies), test(18, {48, 96, 192, 384}, {32, 64, 256}, late_copies);
    }
}
