/*!
Runs the source of the mask decoder's end (cuda/mask_decoder_upscale.cu) on the CPU (machine.h) and
compares every logit with a float64 reference that knows transposed convolutions, not tiles: grids
whose rows are shorter and longer than a tile, tiles that are not full, absent objects.
*/
#include "harness.h"
static Stored<float> stored;
static float* stored_at(float* to, size_t n) { return stored.at(to, n); }
#include "mask_decoder_upscale.h"

/// `far`: how far the features of the first convolution lie from 0, in their spreads.
static void test(int grid, bool lazy, float score, float far = 0) {
    const int tokens = grid * grid, side = 4 * grid;
    Halves x(tokens * 256, 1), hr0(32 * side * side, 0.7), hr1(64 * 4 * tokens, 0.7),
        weight1(4 * 64 * 256, 1 / 16.0f), weight2(4 * 32 * 64, 1 / 8.0f);
    Reals bias1(64, 0.3, far), norm_weight(64, 0.3, 1), norm_bias(64, 0.3), bias2(32, 0.3), vector(32, 1),
        low(side * side), of(1);
    of.data()[0] = score;
    MasksProblem p{x.data(),     hr0.data(),         hr1.data(),       weight1.data(),
                   bias1.data(), norm_weight.data(), norm_bias.data(), weight2.data(),
                   bias2.data(), vector.data(),      of.data(),        low.data(), grid};
    stored.watch(low);
    late = lazy;
    depends_on(x, hr0, hr1, vector, of, low);
    launch({(unsigned)((tokens + TILE - 1) / TILE), 4, 1}, Masks::THREADS, Masks::SHARED, [&] {
        Masks m;
        m.run(p, 1024);
    });
    const bool present = score > 0;
    Numbers X = x.values(), W1 = weight1.values(), W2 = weight2.values(), wanted(side * side, -1024.0);
    if (present) for (int y = 0; y < 2 * grid; y++) for (int c = 0; c < 2 * grid; c++) {
        double first[64]; const double* token = &X[(y / 2 * grid + c / 2) * 256];
        for (int n = 0; n < 64; n++) {
            const double* w = &W1[((y % 2 * 2 + c % 2) * 64 + n) * 256];
            first[n] = (double)bias1.data()[n] + half(hr1.data()[(n * 2 * grid + y) * 2 * grid + c]);
            for (int i = 0; i < 256; i++) first[n] += w[i] * token[i];
        }
        normalize64(first, 64, norm_weight.data(), norm_bias.data(), 1e-6);
        for (double& f : first) f = gelu64(f);
        for (int pixel = 0; pixel < 4; pixel++) {
            int at = (2 * y + pixel / 2) * side + 2 * c + pixel % 2; double logit = 0;
            for (int n = 0; n < 32; n++) {
                double s = (double)bias2.data()[n] + half(hr0.data()[n * side * side + at]);
                for (int i = 0; i < 64; i++) s += W2[(pixel * 32 + n) * 64 + i] * first[i];
                logit += gelu64(s) * vector.data()[n];
            }
            wanted[at] = logit;
        }
    }
    Errors errors; double mean = 0, square = 0;
    for (int i = 0; i < side * side; i++) errors.add(low.at(i), wanted[i]), mean += wanted[i] / wanted.size();
    for (double w : wanted) square += (w - mean) * (w - mean) / wanted.size();
    // Of the standard deviation; of an absent object everything is exact.
    double spread = sqrt(square), limit = present ? 3e-3 * spread : 0;
    const double rms = sqrt(errors.square / wanted.size());
    bool once = std::all_of(stored.times.begin(), stored.times.end(), [](int times) { return times == 1; });
    bool bad = !(errors.most <= limit) || !(rms <= limit / 6) || !once || low.beyond();
    printf(
        "mask_decoder_upscale_masks grid %d, score %g, from 0 %g, late %d: spread %.2f, max abs %.2e (%.1e "
        "of it), rms %.1e of it%s",
        grid, score, far, lazy, spread, errors.most, present ? errors.most / spread : 0,
        present ? rms / spread : 0, once ? "" : ", logits are left out or stored again");
    verdict(bad);
}

int main(int count, char** words) {
    test(4, true, 0.5);
    test(10, false, 1e-30f, 3);
    test(6, true, 0);
    if (shipped_alone(count, words)) return 0;
    test(2, true, 1);
    test(4, false, -1);
    test(4, true, NAN);
    test(16, true, INFINITY, 10);
    test(32, true, 3);
    test(48, false, 3);
    test(64, true, 3);
}
