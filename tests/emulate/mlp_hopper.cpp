/*!
Runs the fused MLP's own source (cuda/mlp_hopper.cu) on the CPU (cluster.h) and compares with float64.
*/
#include "cluster.h"
#include "mlp_hopper.h"

/// What is normalised: x (the residual then), and the result.
struct Norms { bool before, after; };
static void test(int tokens, int chunks, bool gelu, bool projected, bool lazy, float score = 1, Norms norms = {false, false}, float scale = 1, float mean = 0) {
    const int hidden = chunks * MLP_CLUSTER * PART, width = MLP_WIDTH, columns = projected ? MLP_MEMORY : width;
    Halves own_x((long)tokens * width, 1), up((long)hidden * width, 1 / sqrtf(width)), down((long)width * hidden, 1 / sqrtf(hidden));
    Halves residual((long)tokens * width, scale, mean), projection((long)MLP_MEMORY * width, 1 / sqrtf(width)), apart((long)tokens * columns);
    const Halves before = residual;
    // The residual is where the sum goes, and x, too, where that has a norm.
    Halves &out = projected ? apart : residual, &x = norms.before ? residual : own_x;
    Reals up_bias(hidden, 0.3), down_bias(width, 0.3), memory_bias(MLP_MEMORY, 0.3), absent(MLP_MEMORY, 1), scores(1), up_sums(hidden);
    Reals norm_weight(width, 0.3, 1), norm_bias(width, 0.3), ones(width, 0, 1), zeros(width, 0, 0);
    scores[0] = score, slow = lazy;
    up_sums.fill([&](size_t row) { double s = 0; for (int i = 0; i < width; i++) s += up.at(row * width + i); return (float)s; });
    const TensorMap maps[] = {{x.data(), tokens, width, MLP_TOKENS}, {up.data(), hidden, width, PART}, {down.data(), width, hidden, PART},
                              {projection.data(), MLP_MEMORY, width, PART}, {residual.data(), tokens, width, MLP_TOKENS}};
    const Region written[] = {{own_x.data(), own_x.count * 2}, {residual.data(), residual.count * 2}, {apart.data(), apart.count * 2}, {scores.data(), 4}};
    run_clusters((tokens + MLP_TOKENS - 1) / MLP_TOKENS, MLP_CLUSTER, MLP_THREADS, [&] {
        Mlp().run({&maps[0], &maps[1], &maps[2], &maps[3], &maps[4], up_bias.data(), down_bias.data(), norms.before ? up_sums.data() : nullptr,
                   norms.after ? norm_weight.data() : nullptr, norms.after ? norm_bias.data() : nullptr, projected ? memory_bias.data() : nullptr,
                   scores.data(), absent.data(), out.data(), tokens, chunks, gelu}, block_of(me->id) << 18 | 1024);
    }, 1, {written, written + 4});
    Numbers of_x = norms.before ? before.values() : own_x.values(), of_up = up.values(), of_down = down.values(), of_projection = projection.values(), wanted;
    for (int i = 0; i < tokens; i++) {
        Numbers middle(hidden), sum(width);
        if (norms.before) normalize64(&of_x[i * width], width, ones.data(), zeros.data(), 1e-5);
        for (int j = 0; j < hidden; j++) {
            const double s = up_bias.at(j) + dot(&of_x[i * width], &of_up[j * width], width);
            middle[j] = gelu ? gelu64(s) : std::max(s, 0.0);
        }
        for (int j = 0; j < width; j++) sum[j] = before.at((long)i * width + j) + down_bias.at(j) + dot(middle.data(), &of_down[(long)j * hidden], hidden);
        if (norms.after) normalize64(sum.data(), width, norm_weight.data(), norm_bias.data(), 1e-5);
        for (int j = 0; j < columns; j++)
            wanted.push_back(projected ? memory_bias.at(j) + (score <= 0 ? absent.at(j) : 0) + dot(sum.data(), &of_projection[j * width], width) : sum[j]);
    }
    Shares of = shares_of(out, wanted, [](size_t) { return true; });
    printf("%d tokens, %d hidden columns, gelu %d, projection %d, score %g, slow %d, norms %d and %d, x %g around %g: worst relative error %.2e, usual %.2e, %ld written beyond", tokens,
           hidden, gelu, projected, score, lazy, norms.before, norms.after, scale, mean, of.worst, of.usual, out.beyond());
    verdict(exceeds(of.worst, 2e-3) || exceeds(of.usual, 4e-4) || out.beyond());
}

int main(int count, char** words) {
    test(MLP_TOKENS + 5, 2, false, false, true);
    test(33, 3, true, true, true, 0);
    test(MLP_TOKENS + 7, 2, false, false, true, 1, {true, true});
    if (shipped_alone(count, words)) return 0;
    test(1, 4, true, true, false, 0.5);
    test(256, 8, false, false, true);
    test(100, 4, true, false, true);
    for (int i = 0; i < 4; i++) test(290, 4, true, true, true, i - 1.5f);
    test(MLP_TOKENS, 9, false, true, true);
    // Small numbers show the norm's epsilon, and a mean beside the deviation what shifts the sums.
    for (bool lazy : {false, true}) {
        test(1, 2, false, false, lazy, 1, {true, false}, 3e-3), test(300, 3, false, false, lazy, 1, {true, true}, 1, 1);
        test(290, 8, false, false, lazy, 1, {true, false}), test(33, 5, false, false, lazy, 1, {false, true}), test(MLP_TOKENS, 4, false, false, lazy, 1, {true, true}, 4);
    }
}
