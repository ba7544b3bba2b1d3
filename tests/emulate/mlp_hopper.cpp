/*!
Runs the fused MLP's own source (cuda/mlp_hopper.cu) on the CPU (cluster.h) and compares with
float64.
*/
#include "cluster.h"
#include "mlp_hopper.h"

static void test(int tokens, int chunks, bool gelu, bool projected, bool lazy, float score = 1) {
    const int hidden = chunks * MLP_CLUSTER * PART, width = MLP_WIDTH;
    const int columns = projected ? MLP_MEMORY : width;
    Halves x((long)tokens * width, 1), up((long)hidden * width, 1 / sqrtf(width));
    Halves down((long)width * hidden, 1 / sqrtf(hidden)), residual((long)tokens * width, 1);
    Halves projection((long)MLP_MEMORY * width, 1 / sqrtf(width)), apart((long)tokens * columns);
    const Halves before = residual;
    // The residual is where the sum goes.
    Halves& out = projected ? apart : residual;
    Reals up_bias(hidden, 0.3), down_bias(width, 0.3), memory_bias(MLP_MEMORY, 0.3), absent(MLP_MEMORY, 1);
    Reals scores(1);
    scores[0] = score, slow = lazy;
    const TensorMap maps[] = {{x.data(), tokens, width, MLP_TOKENS},
                              {up.data(), hidden, width, PART},
                              {down.data(), width, hidden, PART},
                              {projection.data(), MLP_MEMORY, width, PART},
                              {residual.data(), tokens, width, MLP_TOKENS}};
    const float* bias = projected ? memory_bias.data() : nullptr;
    run_clusters((tokens + MLP_TOKENS - 1) / MLP_TOKENS, MLP_CLUSTER, MLP_THREADS, [&] {
        Mlp().run({&maps[0], &maps[1], &maps[2], &maps[3], &maps[4], up_bias.data(), down_bias.data(), bias,
                   scores.data(), absent.data(), out.data(), tokens, chunks, gelu},
                  block_of(me->id) << 18 | 1024);
    });
    Numbers of_x = x.values(), of_up = up.values(), of_down = down.values();
    Numbers of_projection = projection.values(), wanted;
    for (int i = 0; i < tokens; i++) {
        Numbers middle(hidden), sum(width);
        for (int j = 0; j < hidden; j++) {
            const double s = up_bias.at(j) + dot(&of_x[i * width], &of_up[j * width], width);
            middle[j] = gelu ? gelu64(s) : std::max(s, 0.0);
        }
        for (int j = 0; j < width; j++)
            sum[j] = before.at((long)i * width + j) + down_bias.at(j) +
                     dot(middle.data(), &of_down[(long)j * hidden], hidden);
        for (int j = 0; j < columns; j++)
            wanted.push_back(projected ? memory_bias.at(j) + (score <= 0 ? absent.at(j) : 0) +
                                             dot(sum.data(), &of_projection[j * width], width)
                                       : sum[j]);
    }
    Shares of = shares_of(out, wanted, [](size_t) { return true; });
    printf("%d tokens, %d hidden columns, gelu %d, projection %d, score %g, slow %d: worst relative error "
           "%.2e, usual %.2e, %ld written beyond",
           tokens, hidden, gelu, projected, score, lazy, of.worst, of.usual, out.beyond());
    verdict(exceeds(of.worst, 2e-3) || exceeds(of.usual, 4e-4) || out.beyond());
}

int main(int count, char** words) {
    test(MLP_TOKENS + 5, 2, false, false, true);
    test(33, 3, true, true, true, 0);
    if (shipped_alone(count, words)) return 0;
    test(1, 4, true, true, false, 0.5);
    test(256, 8, false, false, true);
    test(100, 4, true, false, true);
    for (int i = 0; i < 4; i++) test(290, 4, true, true, true, i - 1.5f);
    test(MLP_TOKENS, 9, false, true, true);
}
