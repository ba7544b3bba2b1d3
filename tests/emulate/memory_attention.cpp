/*!
Runs the source of the memory attention's norms and projections (cuda/memory_attention.cu) on the
CPU (machine.h) and compares each with a float64 reference: maps that fill no tile, columns in
parts, copies that come late.
*/
#include "harness.h"
static float rsqrtf(float x) { return reciprocal_root(x); }
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "memory_attention.h"
#include "repvit_packed.h"

/// How far off a result may be, of its own size or the usual one: everywhere, and as a rule. Stored
/// halves cost 2^-11 and 1.4e-4; projections are also of normalised halves. Of all draws, not only the
/// shipped ones, the worst is 1.31e-3.
const double WORST = 1.4e-3, USUAL = 2.6e-4;
static void compare(const char* what, Halves& found, const Numbers& wanted, long strange) {
    Shares of = shares_of(found, wanted, [](size_t) { return true; });
    printf("%s: worst relative error %.2e, usual %.2e, %ld strange", what, of.worst, of.usual,
           strange + found.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || strange || found.beyond());
}

/// Tiles of 16 columns by turns with those 128 behind.
static Halves packed_in_pairs(Halves& weight, int sections) {
    Halves ordered(weight.count);
    ordered.fill([&](size_t at) {
        const size_t row = at / 256, of = row % 256;
        return weight[(row / 256 * 256 + of / 32 * 16 + of / 16 % 2 * 128 + of % 16) * 256 + at % 256];
    });
    return packed(ordered, sections * 256, 256, 2);
}
static void project(int grid, Source source, int sections, int parts, bool late_copies, float scale = 1) {
    late = late_copies;
    const int tokens = grid * grid;
    const size_t all = (size_t)tokens * 256;
    Halves x(all, scale, scale), added(all, scale), sum(all);
    Halves weight((size_t)sections * 256 * 256, 1 / 16.0f), packed_weight = packed_in_pairs(weight, sections);
    Halves out(sections * all);
    Reals norm_weight(256, 0.3, 1), norm_bias(256, 0.3), bias(sections * 256, 0.3);
    Tensor<float2> turns(grid * 64, float2{NAN, NAN});
    turns.fill([](size_t) { float a = normal(rng) * 30; return float2{cosf(a), sinf(a)}; });
    f16 *other = source == TOKENS ? nullptr : added.data(), *to = source == TOKENS ? nullptr : sum.data();
    depends_on(x, added, sum, out);
    if (source == FEATURES) dependent_on.erase(dependent_on.begin() + 1);  // positions are weights
    const unsigned across = (tokens + PROJECT_TOKENS - 1) / PROJECT_TOKENS;
    launch({across, (unsigned)parts, 1}, PROJECT_THREADS, PROJECT_SHARED, [&] {
        Projection().run({x.data(), other, to, norm_weight.data(), norm_bias.data(), packed_weight.data(),
                          bias.data(), turns.data(), out.data(), grid, sections, source},
                         1024);
    });
    Numbers wanted(sections * all), w = weight.values();
    long strange = sum.beyond();
    for (int t = 0; t < tokens; t++) {
        Numbers row(256);
        for (int c = 0; c < 256; c++) {
            const size_t at = (size_t)t * 256 + c, from = source == FEATURES ? (size_t)c * tokens + t : at;
            const f16 half_of = source == TOKENS ? x[from] : tohalf(half(x[from]) + half(added[from]));
            row[c] = half(half_of), strange += source == TOKENS ? sum[at] != sum.nothing : sum[at] != half_of;
        }
        normalize64(row.data(), 256, norm_weight.data(), norm_bias.data(), 1e-5);
        for (int s = 0; s < sections; s++) {
            double* to = &wanted[s * all + (size_t)t * 256];
            for (int c = 0; c < 256; c++)
                to[c] = bias.at(s * 256 + c) + dot(row.data(), &w[(size_t)(s * 256 + c) * 256], 256);
            for (int pair = 0; pair < 128 && s < 2; pair++) {
                const float2 turn = turns[(pair < 64 ? t % grid : t / grid) * 64 + pair % 64];
                const double a = to[pair], b = to[pair + 128];
                to[pair] = a * turn.x - b * turn.y, to[pair + 128] = a * turn.y + b * turn.x;
            }
        }
    }
    char what[99];
    snprintf(what, sizeof what,
             "memory_attention_project, grid %d, source %d, sections %d, parts %d, late %d", grid, source,
             sections, parts, late_copies);
    compare(what, out, wanted, strange);
}

static void norm(int tokens, float scale) {
    Halves x((size_t)tokens * 256, scale, scale), y((size_t)tokens * 256);
    Reals weight(256, 0.3, 1), bias(256, 0.3);
    depends_on(x, y);
    launch({(unsigned)(tokens + NORM_TOKENS - 1) / NORM_TOKENS, 1, 1}, NORM_THREADS, 0,
           [&] { normalize_token(x.data(), weight.data(), bias.data(), y.data(), tokens); });
    Numbers wanted = x.values();
    for (int t = 0; t < tokens; t++)
        normalize64(&wanted[(size_t)t * 256], 256, weight.data(), bias.data(), 1e-5);
    char what[99];
    snprintf(what, sizeof what, "memory_attention_norm, %d tokens", tokens);
    compare(what, y, wanted, 0);
}

int main(int count, char** words) {
    project(10, FEATURES, 3, 5, true), project(6, TOKENS, 3, 2, true), project(6, SUMS, 1, 3, true);
    norm(9, 1);
    if (shipped_alone(count, words)) return 0;
    // With small numbers the norm's epsilon shows.
    norm(1, 1e-2), norm(64, 3e-3), project(4, SUMS, 1, 1, false, 3e-3), project(4, TOKENS, 3, 1, false, 3e-3);
    for (bool late_copies : {false, true})
        for (int grid : {4, 8, 14})
            for (Source source : {TOKENS, SUMS, FEATURES}) {
                for (int parts : {1, 2, 24}) project(grid, source, 3, parts, late_copies);
                for (int parts : {1, 8}) project(grid, source, 1, parts, late_copies);
            }
}
