/*!
Runs the source of the memory attention's norm and projections on Hopper
(cuda/memory_attention_project_hopper.cu) on the CPU (cluster.h) and compares with float64: maps that
fill no tile, an odd number of tiles, units in parts, weights that come late. A query that joins an
attention's parts is compared bit for bit with the two kernels whose place it takes.
*/
#include "cluster.h"
#include "memory_attention_project_hopper.h"
#include "attention.cuh.attention"

/// How a case's parts are drawn.
enum Kind { ALIKE, FAR_APART, MASKED };

static void project(int grid, Source source, int sections, int parts, bool late_weights, float scale = 1) {
    slow = late_weights;
    const int tokens = grid * grid, width = PROJECT_WIDTH,
              tiles = (tokens + PROJECT_TOKENS - 1) / PROJECT_TOKENS;
    const size_t all = (size_t)tokens * width;
    Halves x(all, scale, scale), added(all, scale), sum(all),
        weight((size_t)sections * width * width, 1 / 16.0f), out(sections * all);
    Reals norm_weight(width, 0.3, 1), norm_bias(width, 0.3), bias(sections * width, 0.3),
        turns(grid * SPAN * 2);
    for (int i = 0; i < grid * SPAN; i++) {
        const float angle = normal(rng) * 30;
        turns[i * 2] = cosf(angle), turns[i * 2 + 1] = sinf(angle);
    }
    const TensorMap map{weight.data(), sections * width, width, SPAN};
    f16 *other = source == TOKENS ? nullptr : added.data(), *to = source == TOKENS ? nullptr : sum.data();
    std::vector<Region> written = {
        {x.data(), all * 2}, {sum.data(), all * 2}, {out.data(), sections * all * 2}};
    if (source == SUMS) written.push_back({added.data(), all * 2});  // positions are weights
    run_clusters((tiles + PROJECT_CLUSTER - 1) / PROJECT_CLUSTER, PROJECT_CLUSTER, PROJECT_THREADS,
                 [&] {
                     HopperProjection<false>().run({&map, x.data(), other, to, norm_weight.data(),
                                                    norm_bias.data(), bias.data(), turns.data(), out.data(),
                                                    grid, sections, source, nullptr, nullptr, 0},
                                                   block_of(me->id) << 18 | 1024);
                 },
                 parts, written);
    Numbers wanted(sections * all), w = weight.values();
    long strange = sum.beyond() + out.beyond();
    for (int t = 0; t < tokens; t++) {
        Numbers row(width);
        for (int c = 0; c < width; c++) {
            const size_t at = (size_t)t * width + c,
                         from = source == FEATURES ? (size_t)c * tokens + t : at;
            const f16 half_of = source == TOKENS ? x[from] : tohalf(half(x[from]) + half(added[from]));
            row[c] = half(half_of),
            strange += source == TOKENS ? sum[at] != sum.nothing : sum[at] != half_of;
        }
        normalize64(row.data(), width, norm_weight.data(), norm_bias.data(), 1e-5);
        for (int s = 0; s < sections; s++) {
            double* of = &wanted[s * all + (size_t)t * width];
            for (int c = 0; c < width; c++)
                of[c] =
                    bias.at(s * width + c) + dot(row.data(), &w[(size_t)(s * width + c) * width], width);
            for (int pair = 0; pair < PARTNER && s < TURNED; pair++) {
                const float* turn = &turns[((pair < SPAN ? t % grid : t / grid) * SPAN + pair % SPAN) * 2];
                const double a = of[pair], b = of[pair + PARTNER];
                of[pair] = a * turn[0] - b * turn[1], of[pair + PARTNER] = a * turn[1] + b * turn[0];
            }
        }
    }
    Shares of = shares_of(out, wanted, [](size_t) { return true; });
    printf(
        "memory_attention_project_hopper, grid %d, source %d, sections %d, parts %d, late %d: "
        "worst relative error %.2e, usual %.2e, %ld strange",
        grid, source, sections, parts, late_weights, of.worst, of.usual, strange);
    verdict(exceeds(of.worst, 1.7e-3) || exceeds(of.usual, 2.6e-4) || strange);
}

static void query(int grid, int parts, Kind kind, bool late, float scale = 1) {
    slow = late;
    const int tokens = grid * grid, width = PROJECT_WIDTH,
              tiles = (tokens + PROJECT_TOKENS - 1) / PROJECT_TOKENS;
    const size_t all = (size_t)tokens * width, lines = (size_t)parts * tokens;
    Halves x(all, scale, scale), sum(all), weight((size_t)width * width, 1 / 16.0f), out(all);
    Reals norm_weight(width, 0.3, 1), norm_bias(width, 0.3), bias(width, 0.3), turns(grid * SPAN * 2, 1);
    Reals partial(lines * width, 20 * scale), stats(lines * 2);
    for (size_t i = 0; i < lines; i++) {
        // Keys that a bias masks, and parts that lag so far behind that they weigh nothing.
        const float top = kind == MASKED ? -14427.0f : normal(rng) * (kind == FAR_APART ? 100 : 1);
        stats[i * 2] = top, stats[i * 2 + 1] = 20 + fabsf(normal(rng));
    }
    const TensorMap map{weight.data(), width, width, SPAN};
    const std::vector<Region> written = {{x.data(), all * 2},
                                         {sum.data(), all * 2},
                                         {out.data(), all * 2},
                                         {partial.data(), lines * width * 4},
                                         {stats.data(), lines * 8}};
    run_clusters(
        tiles, PROJECT_CLUSTER, PROJECT_THREADS,
        [&] {
            HopperProjection<true>().run({&map, x.data(), nullptr, sum.data(), norm_weight.data(),
                                          norm_bias.data(), bias.data(), turns.data(), out.data(), grid, 1,
                                          SUMS, partial.data(), stats.data(), parts},
                                         block_of(me->id) << 18 | 1024);
        },
        1, written);
    // The two kernels in its place.
    Halves joined(all), old_sum(all), old_out(all);
    blockDim = {64, 1, 1};
    run_clusters(tokens, 1, 64, [&] {
        combine<PROJECT_WIDTH>(partial.data(), stats.data(), joined.data(), tokens, tokens, parts, width,
                               ::Rows{width, tokens * width});
    });
    run_clusters((tiles + PROJECT_CLUSTER - 1) / PROJECT_CLUSTER, PROJECT_CLUSTER, PROJECT_THREADS,
                 [&] {
                     HopperProjection<false>().run({&map, x.data(), joined.data(), old_sum.data(),
                                                    norm_weight.data(), norm_bias.data(), bias.data(),
                                                    turns.data(), old_out.data(), grid, 1, SUMS, nullptr,
                                                    nullptr, 0},
                                                   block_of(me->id) << 18 | 1024);
                 },
                 2);
    long others = 0;
    for (size_t i = 0; i < all; i++) others += sum[i] != old_sum[i] || out[i] != old_out[i];
    Numbers wanted(all);
    for (int t = 0; t < tokens; t++) {
        double top = -1e300, total = 0;
        for (size_t line = t; line < lines; line += tokens) top = std::max<double>(top, stats.at(line * 2));
        for (size_t line = t; line < lines; line += tokens) {
            const double share = exp2(stats.at(line * 2) - top);
            total += stats.at(line * 2 + 1) * share;
            for (int c = 0; c < width; c++)
                wanted[(size_t)t * width + c] += partial.at(line * width + c) * share;
        }
        for (int c = 0; c < width; c++) {
            double& of = wanted[(size_t)t * width + c];
            of = of / total + x.at((size_t)t * width + c);
        }
    }
    Shares of = shares_of(sum, wanted, [](size_t) { return true; });
    const long beyond = sum.beyond() + out.beyond();
    printf(
        "memory_attention_query_hopper, grid %d, parts %d, kind %d, late %d: "
        "worst relative error of sums %.2e, usual %.2e, %ld other bits, %ld written beyond",
        grid, parts, kind, late, of.worst, of.usual, others, beyond);
    verdict(exceeds(of.worst, 1.1e-3) || exceeds(of.usual, 4e-4) || others || beyond);
}

int main(int count, char** words) {
    query(10, 5, FAR_APART, true);
    project(10, FEATURES, 3, 2, true), project(6, TOKENS, 3, 6, true), project(12, SUMS, 1, 2, true);
    if (shipped_alone(count, words)) return 0;
    // With small numbers the norm's epsilon shows.
    project(4, SUMS, 1, 1, false, 3e-3), project(4, TOKENS, 3, 3, false, 3e-3);
    for (bool late_weights : {false, true})
        for (int grid : {4, 8, 14, 18})
            for (Source source : {TOKENS, SUMS, FEATURES}) {
                for (int parts : {2, 3, 6}) project(grid, source, 3, parts, late_weights);
                for (int parts : {1, 2}) project(grid, source, 1, parts, late_weights);
            }
    for (bool late : {false, true})
        for (int grid : {4, 8, 14})
            for (int parts : {2, 3, 4, 8, 9})
                for (Kind kind : {ALIKE, FAR_APART, MASKED}) query(grid, parts, kind, late);
    query(8, 4, ALIKE, false, 3e-3);
}
