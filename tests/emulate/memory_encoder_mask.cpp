/*!
Runs the source of the mask's side of the memory encoder (cuda/memory_encoder_mask.cu,
memory_encoder_downsample.cuh) on the CPU (machine.h) and compares every number with a float64
reference that knows interpolation, convolutions and norms, not tiles. With the reference goes how
far off a number is to be expected (Near): what rounding to halves does to it, through norms that
divide by next to nothing where the channels of a pixel are almost the same.
*/
#include "harness.h"
#include "memory_encoder_mask.h"

/// A number, and how far off one in halves is to be expected: the most that each rounding does, of
/// which sums have the root of the squares, as if they were independent. They are not quite, and
/// seldom do the most: none is to be further off than FAR times that.
struct Near { double is, off; };
const double HALF = 0x1p-11, FAR = 3;
static double both(double a, double b) { return sqrt(a * a + b * b); }
static Near activated(Near x) {
    // Nowhere is it steeper than 1.13; the polynomial is off by 5e-6 of the argument, an f32 sum by less.
    return {gelu64(x.is), both(1.13 * x.off, 6e-6 * std::min(fabs(x.is), 6.0))};
}
static Near as_half(Near x) { return {x.is, both(x.off, HALF * fabs(x.is) + 0x1p-25)}; }
/// Of a pixel's channels: no result is further from 0 than the root of their number, so that the
/// error has an end.
static void norm_gelu(Near* x, int n, Reals& weight, Reals& bias) {
    double mean = 0, square = 0, off = 0;
    for (int i = 0; i < n; i++) mean += x[i].is / n, off += x[i].off * x[i].off / n;
    for (int i = 0; i < n; i++) square += (x[i].is - mean) * (x[i].is - mean) / n;
    double root = sqrt(square + 1e-6), least = std::max(root - 2 * sqrt(off), 1e-3);
    off = sqrt(off / n);  // of the mean, and of the deviation
    for (int i = 0; i < n; i++) {
        double y = (x[i].is - mean) / root,
               by = both(both(x[i].off, off) / least, fabs(y) * off / least) + 1e-6, most = sqrt(n) + fabs(y);
        x[i] = activated(
            {y * weight.data()[i] + bias.data()[i], std::min(by, most) * fabs(weight.data()[i]) + 1e-6});
    }
}

struct Error { double worst = 0, share = 0, square = 0, count = 0, spread = 0, expected = 0; };
static Error compare(Halves& found, const std::vector<Near>& wanted, const std::vector<bool>& there) {
    Error e;
    for (size_t i = 0; i < wanted.size(); i++) if (there[i]) {
        double d = fabs(half(found.data()[i]) - wanted[i].is);
        if (std::isnan(d)) d = 1e9;
        e.worst = std::max(e.worst, d), e.share = std::max(e.share, d / wanted[i].off), e.square += d * d,
        e.spread += wanted[i].is * wanted[i].is, e.expected += wanted[i].off, e.count++;
    }
    e.square = sqrt(e.square / e.count), e.expected /= e.count, e.spread = sqrt(e.spread / e.count);
    return e;
}
/// `usual`: the root of the mean square of errors, of that of numbers, which rounding a few times
/// gives; `meeting`: bank conflicts that are known.
static void report(const char* what, Error e, double usual, long meeting, bool fine) {
    printf(
        "%s: rms %.2f, max abs %.2e, at most %.2f of what is expected (%.1e on average), rms error %.1e of "
        "rms%s",
        what, e.spread, e.worst, e.share, e.expected, e.square / e.spread,
        fine ? "" : ", written where nothing is");
    verdict(!(e.share <= FAR) || !(e.square <= usual * e.spread) || !fine, meeting);
}

/// What has been written of a result, and that what no block had has not.
static bool only_there(Halves& found, const std::vector<bool>& there) {
    if (found.beyond()) return false;
    for (size_t i = 0; i < there.size(); i++) if (!there[i] && found[i] != found.nothing) return false;
    return true;
}
/// Every EVERYth block, the first and the last ones.
template <class K, class P> static std::vector<bool> launched(const P& p, int side, int channels, int every) {
    std::vector<bool> there(side * side * channels);
    launch(
        {(unsigned)((side + ACROSS - 1) / ACROSS), (unsigned)((side + DOWN - 1) / DOWN), 1}, K::THREADS,
        K::SHARED,
        [&] {
            if (threadIdx.x == 0)
                for (int y = blockIdx.y * DOWN; y < side && y < (int)(blockIdx.y + 1) * DOWN; y++)
                    for (int x = blockIdx.x * ACROSS; x < side && x < (int)(blockIdx.x + 1) * ACROSS; x++)
                        for (int c = 0; c < channels; c++) there[(y * side + x) * channels + c] = true;
            K k;
            k.run(p, 1024);
        },
        every);
    return there;
}

/// 3 x 3, stride 2, padding 1, of [side, side, in] by what weight(out, tap, in) says; a weight may
/// be off by `rounded` of itself.
template <class W>
static std::vector<Near> convolved(const std::vector<Near>& x, int side, int in, int out, Reals& bias,
                                   W weight, double rounded) {
    int half_side = side / 2; std::vector<Near> y((size_t)half_side * half_side * out);
    for (int r = 0; r < half_side; r++) for (int c = 0; c < half_side; c++) for (int o = 0; o < out; o++) {
        double s = bias.data()[o], off = 0;
        for (int tap = 0; tap < 9; tap++) {
            int yy = 2 * r + tap / 3 - 1, xx = 2 * c + tap % 3 - 1;
            if (yy < 0 || xx < 0 || yy >= side || xx >= side) continue;
            for (int i = 0; i < in; i++) {
                double w = weight(o, tap, i); const Near& v = x[(yy * side + xx) * in + i];
                double by = w * both(v.off, (rounded + 1e-7) * v.is); s += w * v.is, off += by * by;
            }
        }
        y[(r * half_side + c) * out + o] = {s, sqrt(off) + 1e-7 * fabs(s)};
    }
    return y;
}

/// Logits: of a few, up to 30 and beyond, -1024 everywhere, multiples of 1/8 with zeros between them.
enum Low { USUAL, STEEP, NOWHERE, EIGHTHS };
static const char* LOWS[] = {"usual", "steep", "-1024", "eighths"};

/// Weights: of the first convolution such that nearly nothing is left where the mask is flat;
/// channels that hardly differ.
enum Kind { ANY, EDGES, FAINT };
static const char* KINDS[] = {"any", "edges", "faint"};

static void mask(int grid, Low kind, float binary, float scale, float offset, int every = 1,
                 Kind weights = ANY) {
    const int side = 4 * grid, high_side = 16 * grid; const bool hard = binary > 0.5f;
    Reals low(side * side), of(1), weight1(36), bias1(4), norm1_weight(4), norm1_bias(4), weight2(576),
        bias2(16), norm2_weight(16), norm2_bias(16);
    Halves narrow(side * side * 16);
    low.fill([&](size_t) {
        float x = normal(rng);
        return kind == NOWHERE ? -1024 : kind == STEEP ? 30 * x : kind == USUAL ? 3 * x : rintf(2 * x) / 8;
    });
    of.data()[0] = binary;
    weight1.fill(floats(0.3, 0)), bias1.fill(floats(0.3, 0)), norm1_weight.fill(floats(0.3, 1)),
        norm1_bias.fill(floats(0.3, 0));
    weight2.fill(floats(0.2, 0)), bias2.fill(floats(0.3, 0)), norm2_weight.fill(floats(0.3, 1)),
        norm2_bias.fill(floats(0.3, 0));
    if (weights == EDGES)
        for (int o = 0; o < 4; o++) {
            float sum = 0;
            for (int i = 0; i < 8; i++) sum += weight1.data()[o * 9 + i];
            weight1.data()[o * 9 + 8] = 0.01f * normal(rng) - sum;
        }
    // Of about the root of the norm's epsilon.
    if (weights == FAINT)
        for (int o = 0; o < 4; o++) {
            bias1.data()[o] = 0.3f;
            for (int i = 0; i < 9; i++) weight1.data()[o * 9 + i] *= 2e-4f;
        }
    late = grid != 6;
    MaskProblem p{low.data(), of.data(), scale, offset, weight1.data(), bias1.data(), norm1_weight.data(),
                  norm1_bias.data(), weight2.data(), bias2.data(), norm2_weight.data(), norm2_bias.data(),
                  narrow.data(), grid};
    depends_on(low, of, narrow);
    std::vector<bool> there = launched<Mask>(p, side, 16, every);

    std::vector<Near> high(high_side * high_side);
    for (int y = 0; y < high_side; y++) for (int x = 0; x < high_side; x++) {
        double v = std::max((y + 0.5) / 4 - 0.5, 0.0), u = std::max((x + 0.5) / 4 - 0.5, 0.0);
        int r = (int)v, c = (int)u, r1 = std::min(r + 1, side - 1), c1 = std::min(c + 1, side - 1);
        v -= r, u -= c;
        auto at = [&](int i, int k) { return (double)low.data()[i * side + k]; };
        double logit =
            (1 - v) * ((1 - u) * at(r, c) + u * at(r, c1)) + v * ((1 - u) * at(r1, c) + u * at(r1, c1));
        double m = (hard ? double(logit > 0) : 1 / (1 + exp(-logit)));
        double value = m * scale + offset;
        // Pixels that are all or nothing are what they are, rounded; others are off by the logit, too.
        high[y * high_side + x] =
            hard || fabs(logit) > 60
                ? Near{value, fabs(half(tohalf((float)m * scale + offset)) - value) + 1e-7 * fabs(value)}
                : as_half({value, 1e-6 * fabs(scale) * (1 + std::min(fabs(logit), 2.0))});
    }
    std::vector<Near> first = convolved(
        high, high_side, 1, 4, bias1,
        [&](int o, int tap, int) { return (double)weight1.data()[o * 9 + tap]; }, 0);
    for (size_t i = 0; i < first.size(); i += 4) {
        norm_gelu(&first[i], 4, norm1_weight, norm1_bias);
        for (int c = 0; c < 4; c++) first[i + c] = as_half(first[i + c]);
    }
    std::vector<Near> second = convolved(
        first, high_side / 2, 4, 16, bias2,
        [&](int o, int tap, int i) { return (double)weight2.data()[(o * 9 + tap) * 4 + i]; }, HALF);
    for (size_t i = 0; i < second.size(); i += 16) {
        norm_gelu(&second[i], 16, norm2_weight, norm2_bias);
        for (int c = 0; c < 16; c++) second[i + c] = as_half(second[i + c]);
    }
    char what[160];
    snprintf(what, sizeof what,
             "memory_encoder_mask_convs grid %d, logits %s, binary %g, times %g plus %g, weights %s, late "
             "%d, every %d",
             grid, LOWS[kind], binary, scale, offset, KINDS[weights], late, every);
    // Differences of pixels have what the mask loses as halves, where it is neither all nor
    // nothing. Rows' first pixels are stored once a block: twice two of them meet.
    report(what, compare(narrow, second, there), weights == EDGES && !hard ? 3e-3 : 1e-3,
           2 * gridDim.x * gridDim.y, only_there(narrow, there));
}

/// `far`: how far channels lie from 0 together; `loud`: 1, or what makes them as small as the
/// norm's epsilon is.
static void widen(int grid, bool lazy, float far, int every = 1, float loud = 1) {
    const int side = 2 * grid;
    Halves narrow(16 * side * side * 4), weight(64 * 144), wide(side * side * 64);
    Reals bias(64), norm_weight(64), norm_bias(64);
    narrow.fill([&](size_t) { return tohalf(normal(rng)); }),
        weight.fill([&](size_t) { return tohalf(normal(rng) / 12 * loud); });
    bias.fill(floats(0.3 * loud, far)), norm_weight.fill(floats(0.3, 1)), norm_bias.fill(floats(0.3, 0));
    late = lazy;
    depends_on(narrow, wide);
    std::vector<bool> there =
        launched<Widen>(WidenProblem{narrow.data(), weight.data(), bias.data(), norm_weight.data(),
                                     norm_bias.data(), wide.data(), grid},
                        side, 64, every);
    std::vector<Near> x(narrow.count);
    for (size_t i = 0; i < x.size(); i++) x[i] = {half(narrow.data()[i]), 0};
    std::vector<Near> y = convolved(
        x, 2 * side, 16, 64, bias,
        [&](int o, int tap, int i) { return (double)half(weight.data()[(o * 9 + tap) * 16 + i]); }, 0);
    for (size_t i = 0; i < y.size(); i += 64) {
        norm_gelu(&y[i], 64, norm_weight, norm_bias);
        for (int c = 0; c < 64; c++) y[i + c] = as_half(y[i + c]);
    }
    char what[160];
    snprintf(what, sizeof what,
             "memory_encoder_mask_downsample grid %d, from 0 %g, times %g, late %d, every %d", grid, far,
             loud, lazy, every);
    report(what, compare(wide, y, there), 3e-4, 0, only_there(wide, there));
}

int main(int count, char** words) {
    mask(4, USUAL, 0, 20, -10);
    mask(6, STEEP, 1, 20, -10);
    mask(4, EIGHTHS, 1, 1.7f, 0.4f);
    mask(4, NOWHERE, 0, 20, -10);
    mask(4, NOWHERE, 1, 20, -10, 1, EDGES);
    mask(4, USUAL, 1, 20, -10, 1, FAINT);
    widen(4, true, 0);
    widen(4, true, 0, 1, 1e-3f);
    widen(6, false, 3);
    if (shipped_alone(count, words)) return 0;
    widen(10, true, 30);
    widen(32, true, 0);
    widen(64, true, 1, 7);
    for (int grid : {4, 6, 10})
        for (Low low : {USUAL, STEEP, EIGHTHS})
            for (float binary : {0.0f, 0.5f, 0.51f, 1.0f}) mask(grid, low, binary, 20, -10);
    mask(10, STEEP, 0, 1, 0), mask(10, USUAL, 1, 1, 0), mask(10, NOWHERE, 1, 20, -10);
    mask(10, USUAL, 0, 20, -10, 1, EDGES), mask(10, USUAL, 1, 20, -10, 1, EDGES),
        mask(10, STEEP, 1, 20, -10, 1, EDGES);
    for (float binary : {0.0f, 1.0f}) mask(32, STEEP, binary, 20, -10), mask(64, USUAL, binary, 20, -10, 9);
}
