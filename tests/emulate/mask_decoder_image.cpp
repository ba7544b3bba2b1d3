/*!
Runs the source of the decoder's attention to and from the image (cuda/mask_decoder_image.cu) on the
CPU (machine.h) and compares with a float64 reference, which rounds x + pe once as the kernels do:
maps that fill no tile, y in the place of x, scores far apart. What is read is compared with a
reference that rounds nothing too: what that rounding costs is shown.
*/
#include "harness.h"
#include "mask_decoder_image.h"

/// `scale`: deviation of scores, of which the largest of a launch is some four times; `mean`: of x;
/// every `sample`th row of y is compared.
struct Case { int tokens; bool write, in_place, late_copies; float scale, mean; int sample; };

/// Of the tiles merged: what a token reads, against float64; and that each tile's maximum is one.
static void check_read(Case c, const std::vector<double>& x, const std::vector<double>& placed,
                       Halves& folded, Halves& values, Reals& sums, Reals& parts, double& worst, double& most,
                       double& top_score) {
    int n = c.tokens, tiles = (n + 63) / 64; std::vector<double> v((size_t)n * 128);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < 128; o++) {
            double s = 0;
            for (int k = 0; k < 256; k++) s += half(values.data()[o * 256 + k]) * x[(size_t)i * 256 + k];
            v[(size_t)i * 128 + o] = s;
        }
    std::vector<double> score(n);
    for (int h = 0; h < 8; h++) for (int j = 0; j < 8; j++) {
            int r = 8 * h + j;
            double high = -1e300, total = 0, o[16] = {0}, top = -1e300, got_total = 0, got[16] = {0};
            for (int i = 0; i < n; i++) {
                double s = 0;
                for (int k = 0; k < 256; k++)
                    s += half(folded.data()[r * 256 + k]) * placed[(size_t)i * 256 + k];
                score[i] = s;
                high = std::max(high, s);
                top_score = std::max(top_score, fabs(s));
            }
            for (int i = 0; i < n; i++) {
                double w = exp(score[i] - high);
                total += w;
                for (int d = 0; d < 16; d++) o[d] += w * v[(size_t)i * 128 + h * 16 + d];
            }
        for (int t = 0; t < tiles; t++) {
            double tile = -1e300;
            for (int i = t * 64; i < std::min(n, t * 64 + 64); i++) tile = std::max(tile, score[i]);
            double m = sums.data()[(t * 64 + r) * 2];
            top = std::max(top, m);
            most = std::isnan(m) ? 1e9 : std::max(most, fabs(m - tile) / (1 + fabs(tile)));
        }
        for (int t = 0; t < tiles; t++) {
            const float* line = sums.data() + (t * 64 + r) * 2;
            double w = exp(line[0] - top);
            got_total += w * line[1];
            for (int d = 0; d < 16; d++) got[d] += w * parts.data()[(t * 8 + j) * 128 + h * 16 + d];
        }
        Errors errors; for (int d = 0; d < 16; d++) errors.add(got[d] / got_total, o[d] / total);
        worst = std::max(worst, errors.relative());
    }
}

static void test(Case c) {
    late = c.late_copies;
    int n = c.tokens, tiles = (n + 63) / 64;
    Halves x((size_t)n * 256), pe((size_t)n * 256), folded(64 * 256), values(128 * 256), keys(64 * 256),
        write_values(256 * 64), y((size_t)n * 256);
    Reals key_bias(64, 1), bias(256, 0.3), norm_weight(256, 0.2, 1), norm_bias(256, 0.3),
        sums((size_t)tiles * 128), parts((size_t)tiles * 1024);
    float fold = c.scale / 16 / std::sqrt(2.0f);  // x and pe of deviation 1
    // Values of a mean, so that what is read is more than the difference of what cancels.
    x.fill(halves(1, c.mean)), pe.fill(halves(1)), folded.fill(halves(fold)), keys.fill(halves(fold)),
        values.fill(halves(1 / 16.0f, 1 / 64.0f)), write_values.fill(halves(0.5f));
    const Numbers before = x.values();
    Halves& to = c.in_place ? x : y;
    ReadProblem read{folded.data(), values.data(), sums.data(), parts.data(), n};
    WriteProblem write{
        x.data(),    pe.data(),          keys.data(),      key_bias.data(), write_values.data(),
        bias.data(), norm_weight.data(), norm_bias.data(), to.data(),       n};
    if (c.write) depends_on(x, keys, key_bias, write_values, folded, y, sums, parts);
    else depends_on(x, folded, sums, parts);
    launch({(unsigned)tiles, 1, 1}, IMAGE_THREADS, c.write ? 98304 : 65536, [&] {
        if (c.write) write_image(write, read, 1024);
        else read_image(x.data(), pe.data(), read, 1024);
    });
    double worst_y = 0, worst_read = 0, worst_top = 0, most_y = 0, top_score = 0;
    auto placed_of = [&](const std::vector<double>& of, bool rounded) {
        std::vector<double> r(of.size());
        for (size_t i = 0; i < r.size(); i++) {
            r[i] = of[i] + half(pe.data()[i]);
            if (rounded) r[i] = half(tohalf(r[i]));
        }
        return r;
    };
    if (c.write) {
        std::vector<double> placed = placed_of(before, true);
        for (int i = 0; i < n; i += c.sample) {
            double s[64], row[256]; Errors errors;
            for (int r = 0; r < 64; r++) {
                s[r] = key_bias.data()[r];
                for (int k = 0; k < 256; k++)
                    s[r] += half(keys.data()[r * 256 + k]) * placed[(size_t)i * 256 + k];
                top_score = std::max(top_score, fabs(s[r]));
            }
            for (int h = 0; h < 8; h++) {
                double high = *std::max_element(s + 8 * h, s + 8 * h + 8), sum = 0;
                for (int j = 0; j < 8; j++) sum += s[8 * h + j] = exp(s[8 * h + j] - high);
                for (int j = 0; j < 8; j++) s[8 * h + j] /= sum;
            }
            for (int k = 0; k < 256; k++) {
                row[k] = before[(size_t)i * 256 + k] + bias.data()[k];
                for (int r = 0; r < 64; r++) row[k] += s[r] * half(write_values.data()[k * 64 + r]);
            }
            normalize64(row, 256, norm_weight.data(), norm_bias.data(), 1e-5);
            for (int k = 0; k < 256; k++) errors.add(to.at((size_t)i * 256 + k), row[k]);
            worst_y = std::max(worst_y, errors.relative()), most_y = std::max(most_y, errors.most);
        }
    }
    // The read behind a write is of y as it was stored.
    std::vector<double> stored((size_t)n * 256);
    for (size_t i = 0; i < stored.size(); i++) stored[i] = c.write ? half(to.data()[i]) : before[i];
    double unrounded = 0, any = 0;
    check_read(c, stored, placed_of(stored, false), folded, values, sums, parts, unrounded, any, top_score);
    check_read(c, stored, placed_of(stored, true), folded, values, sums, parts, worst_read, worst_top,
               top_score);
    long beyond = x.beyond() + y.beyond() + sums.beyond() + parts.beyond();
    if (!c.write || !c.in_place)
        for (size_t i = 0; i < before.size(); i++) beyond += half(x.data()[i]) != before[i];
    bool bad = exceeds(worst_y, 1e-3) || exceeds(worst_read, 1e-3) || exceeds(worst_top, 1e-5) ||
               exceeds(unrounded, 1e-2) || beyond;
    printf(
        "decoder_%s %d tokens, in place %d, late %d, |score| up to %.1f, mean %.0f: y rel %.2e max abs %.2e, "
        "read rel %.2e (%.2e), maxima %.2e, %ld written beyond",
        c.write ? "write" : "read", n, c.in_place, c.late_copies, top_score, c.mean, worst_y, most_y,
        worst_read, unrounded, worst_top, beyond);
    verdict(bad);
}

int main(int count, char** words) {
    for (float scale : {1.0f, 7.0f}) {
        test({100, false, false, true, scale, 0, 1});
        test({100, true, true, true, scale, 0, 1});
    }
    test({16, true, false, false, 3, 4, 1});
    if (shipped_alone(count, words)) return 0;
    for (int tokens : {1, 16, 64, 100, 129, 1024})
        for (float scale : {1.0f, 7.0f}) {
            test({tokens, false, false, false, scale, 0, 1});
            test({tokens, true, false, false, scale, 0, 1});
            test({tokens, true, true, true, scale, 4, 1});
        }
    test({4096, false, false, false, 3, 0, 1});
    test({4096, true, true, true, 7, 0, 5});
}
