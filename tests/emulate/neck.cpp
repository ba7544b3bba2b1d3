/*!
Runs the source of the encoders' neck (cuda/neck.cu) on the CPU (machine.h) and compares its
features with a float64 reference: tokens of both types, maps that fill no tile, sides that are no
multiple of four, copies that come late, any number of columns, and K of fewer chunks than the ring
has slots and of many more.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "neck.h"
#include "repvit_packed.h"

const double WORST = 5.5e-4, USUAL = 2.5e-4;

/// Planar; the coarser map, if there is one, for 2 x 2 of the result. Of tokens as the tensor cores
/// get them, rounded to halves.
template <class Map>
static Numbers product(const Map& tokens, Halves& weight, int columns, int depth, int side, int up) {
    Numbers y((size_t)columns * side * side), t = tokens.values(), w = weight.values();
    for (double& x : t) x = half(tohalf((float)x));
    for (size_t i = 0; i < y.size(); i++) {
        const int at = i % (side * side), token = at / side / up * (side / up) + at % side / up;
        y[i] = dot(&t[(size_t)token * depth], &w[i / (side * side) * depth], depth);
    }
    return y;
}

template <class Map>
static void test(int grid, std::array<int, 4> depths, std::array<int, 3> columns, bool late_copies) {
    late = late_copies;
    const bool floats = sizeof(*Map(1).data()) == 4;
    const int sides[4] = {4 * grid, 2 * grid, grid, grid / 2};
    auto map = [&](int i) { return Map((size_t)sides[i] * sides[i] * depths[i], 1, 0.2); };
    auto weight = [&](int i) { return Halves(columns[std::min(i, 2)] * depths[i], 1 / sqrtf(depths[i])); };
    Map m0 = map(0), m1 = map(1), m2 = map(2), m3 = map(3);
    Halves w0 = weight(0), w1 = weight(1), w2 = weight(2), w3 = weight(3);
    auto out = [&](int i) { return Halves((size_t)sides[i] * sides[i] * columns[i]); };
    auto bytes = [](Map& map) { return (const unsigned char*)map.data(); };
    Reals b0(columns[0], 0.3), b1(columns[1], 0.3), b2(columns[2], 0.3);
    Halves hr0 = out(0), hr1 = out(1), feat = out(2);
    const int size = floats ? 4 : 2;
    NeckProblem p{
        {bytes(m2), nullptr, b2.data(), feat.data(), bytes(m3), grid, depths[2], columns[2], depths[3], size},
        {bytes(m1), nullptr, b1.data(), hr1.data(), nullptr, grid * 2, depths[1], columns[1], 0, size},
        {bytes(m0), nullptr, b0.data(), hr0.data(), nullptr, grid * 4, depths[0], columns[0], 0, size}};
    auto tiles = [](const Level& level, bool square) { return Share(level, square).across * TILES; };
    Halves p0 = packed_left(w0, columns[0], depths[0], tiles(p.hr0, false), floats),
           p1 = packed_left(w1, columns[1], depths[1], tiles(p.hr1, false), floats);
    // [W | V]; V begins at a step.
    const int begin = (depths[2] + 15) / 16 * 16, both = begin + depths[3];
    Halves joined(columns[2] * both);
    joined.fill([&](size_t at) {
        const int c = at / both, k = at % both;
        return k < depths[2] ? w2[c * depths[2] + k] : k < begin ? (f16)0 : w3[c * depths[3] + k - begin];
    });
    Halves p2 = packed_left(joined, columns[2], both, tiles(p.feat, true), floats);
    p.hr0.weight = p0.data(), p.hr1.weight = p1.data(), p.feat.weight = p2.data();
    const unsigned blocks =
        Share(p.feat, true).blocks + Share(p.hr1, false).blocks + Share(p.hr0, false).blocks;
    depends_on(m0, m1, m2, m3, hr0, hr1, feat);
    launch({blocks, 1, 1}, THREADS, neck_shared, [&] { make_features(p, 1024); });
    Numbers wanted[3] = {product(m0, w0, columns[0], depths[0], sides[0], 1),
                         product(m1, w1, columns[1], depths[1], sides[1], 1),
                         product(m2, w2, columns[2], depths[2], grid, 1)};
    Numbers up = product(m3, w3, columns[2], depths[3], grid, 2);
    for (size_t i = 0; i < up.size(); i++) wanted[2][i] += up[i];
    Halves* found[3] = {&hr0, &hr1, &feat}; Reals* bias[3] = {&b0, &b1, &b2};
    for (int i = 0; i < 3; i++) {
        for (size_t at = 0; at < wanted[i].size(); at++)
            wanted[i][at] += bias[i]->at(at / (sides[i] * sides[i]));
        Shares of = shares_of(*found[i], wanted[i], [](size_t) { return true; });
        printf(
            "neck of %s, %d columns of %d x %d, late %d: worst relative error %.2e, usual %.2e, %ld written "
            "beyond",
            floats ? "floats" : "halves", columns[i], sides[i], sides[i], late_copies, of.worst, of.usual,
            found[i]->beyond());
        verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || found[i]->beyond());
    }
}
static void both(int grid, std::array<int, 4> depths, std::array<int, 3> columns, bool late_copies) {
    test<Halves>(grid, depths, columns, late_copies), test<Reals>(grid, depths, columns, late_copies);
}

int main(int count, char** words) {
    both(6, {16, 24, 40, 72}, {8, 40, 72}, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true}) {
        for (int grid : {2, 4, 10, 16}) both(grid, {16, 24, 40, 64}, {16, 24, 136}, late_copies);
        both(8, {48, 96, 192, 384}, {32, 64, 256}, late_copies),
            both(18, {48, 96, 192, 384}, {32, 64, 256}, late_copies);
        both(8, {112, 224, 448, 896}, {32, 64, 256}, late_copies),
            both(4, {144, 288, 576, 1152}, {32, 96, 256}, late_copies);
    }
}
