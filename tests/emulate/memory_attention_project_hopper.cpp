/*!
Runs the source of the memory attention's norm and projections on Hopper
(cuda/memory_attention_project_hopper.cu) on the CPU (cluster.h) and compares with float64: maps that
fill no tile, an odd number of tiles, units in parts, weights that come late.
*/
#include "cluster.h"
#include "memory_attention_project_hopper.h"

static void project(int grid, Source source, int sections, int parts, bool late_weights, float scale = 1) {
    slow = late_weights;
    const int tokens = grid * grid, width = PROJECT_WIDTH;
    const int tiles = (tokens + PROJECT_TOKENS - 1) / PROJECT_TOKENS;
    const size_t all = (size_t)tokens * width;
    Halves x(all, scale, scale), added(all, scale), sum(all), out(sections * all);
    Halves weight((size_t)sections * width * width, 1 / 16.0f);
    Reals norm_weight(width, 0.3, 1), norm_bias(width, 0.3), bias(sections * width, 0.3);
    Reals turns(grid * SPAN * 2);
    for (int i = 0; i < grid * SPAN; i++) {
        const float angle = normal(rng) * 30;
        turns[i * 2] = cosf(angle), turns[i * 2 + 1] = sinf(angle);
    }
    const TensorMap map{weight.data(), sections * width, width, SPAN};
    f16 *other = source == TOKENS ? nullptr : added.data(), *to = source == TOKENS ? nullptr : sum.data();
    std::vector<Region> written = {
        {x.data(), all * 2}, {sum.data(), all * 2}, {out.data(), sections * all * 2}};
    if (source == SUMS) written.push_back({added.data(), all * 2});  // positions are weights
    run_clusters((tiles + PROJECT_CLUSTER - 1) / PROJECT_CLUSTER, PROJECT_CLUSTER, PROJECT_THREADS, [&] {
        HopperProjection().run({&map, x.data(), other, to, norm_weight.data(), norm_bias.data(), bias.data(),
                                turns.data(), out.data(), grid, sections, source},
                               block_of(me->id) << 18 | 1024);
    }, parts, written);
    Numbers wanted(sections * all), w = weight.values();
    long strange = sum.beyond() + out.beyond();
    for (int t = 0; t < tokens; t++) {
        Numbers row(width);
        for (int c = 0; c < width; c++) {
            const size_t at = (size_t)t * width + c, from = source == FEATURES ? (size_t)c * tokens + t : at;
            const f16 half_of = source == TOKENS ? x[from] : tohalf(half(x[from]) + half(added[from]));
            row[c] = half(half_of), strange += source == TOKENS ? sum[at] != sum.nothing : sum[at] != half_of;
        }
        normalize64(row.data(), width, norm_weight.data(), norm_bias.data(), 1e-5);
        for (int s = 0; s < sections; s++) {
            double* of = &wanted[s * all + (size_t)t * width];
            for (int c = 0; c < width; c++)
                of[c] = bias.at(s * width + c) +
                        dot(row.data(), &w[(size_t)(s * width + c) * width], width);
            for (int pair = 0; pair < PARTNER && s < TURNED; pair++) {
                const float* turn = &turns[((pair < SPAN ? t % grid : t / grid) * SPAN + pair % SPAN) * 2];
                const double a = of[pair], b = of[pair + PARTNER];
                of[pair] = a * turn[0] - b * turn[1], of[pair + PARTNER] = a * turn[1] + b * turn[0];
            }
        }
    }
    Shares of = shares_of(out, wanted, [](size_t) { return true; });
    printf("memory_attention_project_hopper, grid %d, source %d, sections %d, parts %d, late %d: worst "
           "relative error %.2e, usual %.2e, %ld strange",
           grid, source, sections, parts, late_weights, of.worst, of.usual, strange);
    verdict(exceeds(of.worst, 1.7e-3) || exceeds(of.usual, 2.6e-4) || strange);
}

int main(int count, char** words) {
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
}
