// A block of RepViT in one launch against a float64 reference, which rounds nothing. Who includes
// this has said how a Kind runs: `run<Kind>(side of z's map, problem)`.
#pragma once
#include "repvit_packed.h"

/// A token is stored as a half (1.4e-4 as a rule), and so are y and the hidden columns on the way.
const double WORST = 2.2e-3, USUAL = 3.5e-4;

/// `gated`: y has a gate, and z's sums are added up.
template <class Kind, int IN, int C>
static void test(const char* name, int grid, bool gated, bool late_copies) {
    late = late_copies;
    const int stride = IN == C ? 1 : 2, side = grid / stride, tokens = side * side, hidden = 2 * C,
              squeezed = (C / 4 + 4) / 8 * 8;
    Halves x((size_t)grid * grid * IN, 1, 0.2), up(hidden * C, 1 / sqrtf(C)),
        down(C * hidden, 1 / sqrtf(hidden)), point(C * IN, 1 / sqrtf(IN)), squeeze(squeezed * C, 1),
        excite(squeezed * C, 1), z((size_t)tokens * C);
    Halves up_packed = packed(up, hidden, C, 2), down_packed = packed(down, C, hidden, 1),
           point_packed = packed(point, C, IN, 1);
    Reals weight(9 * IN, 0.3), bias(IN, 0.3), up_bias(hidden, 0.3), down_bias(C, 0.3), point_bias(C, 0.3),
        squeeze_bias(squeezed, 0.3), excite_bias(C, 0.3), edges(9 * C, 1);
    Tensor<long long> sums(COPIES * C, -1ll), next(COPIES * C, -1ll);
    sums.fill([](size_t) { return 0; }), next.fill([](size_t) { return 0; });
    Numbers in = x.values(), conv((size_t)tokens * IN), means(IN), inner(squeezed), gates(C, 1.0);
    for (int t = 0; t < tokens; t++) for (int c = 0; c < IN; c++) {
        double& sum = conv[(size_t)t * IN + c];
        for (int tap = 0; tap < 9; tap++) {
            int row = t / side * stride + tap / 3 - 1, column = t % side * stride + tap % 3 - 1;
            if (row >= 0 && row < grid && column >= 0 && column < grid)
                sum += in[((size_t)row * grid + column) * IN + c] * weight.at(tap * IN + c);
        }
        means[c] += sum / tokens + bias.at(c) / tokens;
        // As whoever wrote x has added it up, in two of the copies.
        if (IN == C) sums.data()[t % 2 * (COPIES - 1) * C + c] += llrint(sum * SUM_UNIT);
        sum += bias.at(c);
    }
    const bool excited = gated && IN == C;
    if (excited) {
        for (int s = 0; s < squeezed; s++) {
            for (int c = 0; c < C; c++) inner[s] += squeeze.at(s * C + c) * means[c];
            inner[s] = std::max(inner[s] + squeeze_bias.at(s), 0.0);
        }
        for (int c = 0; c < C; c++) {
            double sum = excite_bias.at(c);
            for (int s = 0; s < squeezed; s++) sum += excite.at(s * C + c) * inner[s];
            gates[c] = 1 / (1 + exp(-sum));
        }
    }
    const BlockProblem problem{
        x.data(), weight.data(), bias.data(),
        {excited ? sums.data() : nullptr, squeeze.data(), squeeze_bias.data(), excite.data(),
         excite_bias.data()},
        point_packed.data(), point_bias.data(), up_packed.data(), up_bias.data(), down_packed.data(),
        down_bias.data(), z.data(), edges.data(), gated ? next.data() : nullptr, grid};
    depends_on(x, sums, z, next);
    run<Kind>(side, problem);
    Numbers wanted((size_t)tokens * C), u = up.values(), d = down.values(), q = point.values(), nexts(C);
    for (int t = 0; t < tokens; t++) {
        Numbers y(C), h(hidden);
        for (int c = 0; c < C; c++)
            y[c] = IN == C ? conv[(size_t)t * IN + c] * gates[c]
                           : point_bias.at(c) + dot(&q[(size_t)c * IN], &conv[(size_t)t * IN], IN);
        for (int i = 0; i < hidden; i++) h[i] = gelu64(up_bias.at(i) + dot(&u[(size_t)i * C], y.data(), C));
        for (int c = 0; c < C; c++)
            wanted[(size_t)t * C + c] =
                y[c] + down_bias.at(c) + dot(&d[(size_t)c * hidden], h.data(), hidden);
        auto edge = [&](int at) { return at == 0 ? 0 : at == side - 1 ? 2 : 1; };
        for (int c = 0; c < C; c++)
            nexts[c] += z.at((size_t)t * C + c) * edges.at((edge(t / side) * 3 + edge(t % side)) * C + c);
    }
    Shares of = shares_of(z, wanted, [](size_t) { return true; });
    Errors all;
    for (int c = 0; c < C; c++) {
        double found = 0;
        for (int i = 0; i < COPIES; i++) found += next.at(i * C + c) / SUM_UNIT;
        all.add(found, gated ? nexts[c] : 0);
    }
    printf("%s, grid %d, gate %d, late %d: worst relative error %.2e, usual %.2e, sums' %.1e, "
           "%ld written beyond",
           name, grid, gated, late_copies, of.worst, of.usual, all.most, z.beyond());
    // Two tokens' units of 8 bytes share banks where hidden columns are stored and y is added.
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || exceeds(all.most, 1e-5 * tokens) ||
                z.beyond() || next.beyond(),
            loads / 3);
}
