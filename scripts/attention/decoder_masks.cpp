/*!
Runs the source of the mask decoder's end (cuda/decoder_masks.cu) on the CPU (machine.h) and compares every logit with a float64 reference that
knows transposed convolutions, not tiles: grids whose rows are shorter and longer than a tile, tiles that are not full, absent objects.
*/
#include <sys/mman.h>
#include "machine.h"
/// As load_matrices has it: a quarter of a warp's lanes at a time; those that read the same disturb nobody.
static void shared_load(u32 a, void* to) {
    collective(&a, [&](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            std::map<u32, int> banks; std::map<u32, bool> seen; int most = 0;
            for (int l = 0; l < 8; l++) {
                u32 of = *(u32*)f[i * 8 + l].args;
                if (of % 16 || of + 16 > memory.size()) { printf("bad shared load\n"); exit(1); }
                if (!seen[of]) most = std::max(most, ++banks[of / 16 % 8]), seen[of] = true;
            }
            loads++; conflicts += most - 1;
        }
    });
    memcpy(to, &memory[a], 16);
}
static uint4 shared_unit(u32 a) { uint4 r; shared_load(a, &r); return r; }
static float4 shared_floats(u32 a) { float4 r; shared_load(a, &r); return r; }
static const float *low_first, *low_end; static std::vector<int> stored;  // how often each logit was
static void store_two(float* to, float first, float second) {
    if ((size_t)to % 8 || to < low_first || to + 2 > low_end) { printf("a store outside\n"); exit(1); }
    to[0] = first, to[1] = second, stored[to - low_first]++, stored[to - low_first + 1]++;
}
template <class T> static T either(bool second, T a, T b) { return second ? b : a; }
// As far off as the instruction may be.
static float reciprocal_root(float x) { return (1 + 0x1p-22f) / sqrtf(x); }
#include "../../cuda/halves.cuh"
#include "../../cuda/gelu.cuh"
#include "body.inc"

/// Memory ends where a tensor does, so that a read behind it ends the program; what lies in front of it is a NaN.
template <class T> struct Tensor {
    unsigned char* all; size_t mapped, count; T around; T* first;
    static const size_t PAGE = 1 << 16;
    Tensor(size_t n, T nothing) : count(n), around(nothing) {
        size_t bytes = (n * sizeof(T) + PAGE - 1) / PAGE * PAGE + PAGE;
        mapped = bytes + PAGE;
        all = (unsigned char*)mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED || mprotect(all + bytes, PAGE, PROT_NONE)) { printf("no memory\n"); exit(1); }
        first = (T*)(all + bytes) - n;
        std::fill((T*)all, (T*)(all + bytes), nothing);
    }
    Tensor(const Tensor&) = delete;
    ~Tensor() { munmap(all, mapped); }
    T* data() { return first; }
    template <class D> void fill(D draw) { for (size_t i = 0; i < count; i++) data()[i] = draw(i); }
};

static double gelu64(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }

/// `far`: how far the features of the first convolution lie from 0, in their spreads.
static void test(int grid, bool lazy, float score, float far = 0) {
    std::normal_distribution<float> normal;
    const f16 NONE = 0x7e00; const float NOWHERE = NAN;
    const int tokens = grid * grid, side = 4 * grid;
    Tensor<f16> x(tokens * 256, NONE), hr0(32 * side * side, NONE), hr1(64 * 4 * tokens, NONE), weight1(4 * 64 * 256, NONE), weight2(4 * 32 * 64, NONE);
    Tensor<float> bias1(64, NOWHERE), norm_weight(64, NOWHERE), norm_bias(64, NOWHERE), bias2(32, NOWHERE), vector(32, NOWHERE), low(side * side, NOWHERE), of(1, NOWHERE);
    auto some = [&](float scale) { return [=, &normal](size_t) { return tohalf(normal(rng) * scale); }; };
    auto real = [&](float mean, float scale) { return [=, &normal](size_t) { return mean + normal(rng) * scale; }; };
    x.fill(some(1)), hr0.fill(some(0.7)), hr1.fill(some(0.7)), weight1.fill(some(1 / 16.0f)), weight2.fill(some(1 / 8.0f));
    bias1.fill(real(far, 0.3)), norm_weight.fill(real(1, 0.3)), norm_bias.fill(real(0, 0.3)), bias2.fill(real(0, 0.3)), vector.fill(real(0, 1));
    of.data()[0] = score;
    MasksProblem p{x.data(), hr0.data(), hr1.data(), weight1.data(), bias1.data(), norm_weight.data(), norm_bias.data(), weight2.data(), bias2.data(), vector.data(), of.data(), low.data(), grid};
    low_first = low.data(), low_end = low_first + low.count; stored.assign(low.count, 0);
    using M = Masks;
    late = lazy; conflicts = loads = 0;
    gridDim = {(unsigned)((tokens + TILE - 1) / TILE), 4, 1}; blockDim = {M::THREADS, 1, 1};
    for (unsigned b = 0; b < gridDim.y; b++) for (unsigned a = 0; a < gridDim.x; a++) {
        blockIdx = {a, b, 0}; memory.assign(1024 + M::SHARED, 0xff);
        run_block(M::THREADS, [&] { M m; m.run(p, 1024); });
    }
    const bool present = score > 0;
    auto halves = [](Tensor<f16>& t) { std::vector<double> v(t.count); for (size_t i = 0; i < t.count; i++) v[i] = half(t.data()[i]); return v; };
    std::vector<double> X = halves(x), W1 = halves(weight1), W2 = halves(weight2), wanted(side * side, -1024.0);
    if (present) for (int y = 0; y < 2 * grid; y++) for (int c = 0; c < 2 * grid; c++) {
        double first[64], mean = 0, square = 0; const double* token = &X[(y / 2 * grid + c / 2) * 256];
        for (int n = 0; n < 64; n++) {
            const double* w = &W1[((y % 2 * 2 + c % 2) * 64 + n) * 256];
            first[n] = (double)bias1.data()[n] + half(hr1.data()[(n * 2 * grid + y) * 2 * grid + c]);
            for (int i = 0; i < 256; i++) first[n] += w[i] * token[i];
            mean += first[n] / 64;
        }
        for (double f : first) square += (f - mean) * (f - mean) / 64;
        for (int n = 0; n < 64; n++) first[n] = gelu64((first[n] - mean) / sqrt(square + 1e-6) * norm_weight.data()[n] + norm_bias.data()[n]);
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
    double worst = 0, error = 0, mean = 0, square = 0;
    for (int i = 0; i < side * side; i++) {
        double d = low.data()[i] - wanted[i];
        if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d);
        error += d * d / wanted.size(), mean += wanted[i] / wanted.size();
    }
    for (double w : wanted) square += (w - mean) * (w - mean) / wanted.size();
    // Of the standard deviation; of an absent object everything is exact.
    double spread = sqrt(square), limit = present ? 3e-3 * spread : 0;
    bool once = std::all_of(stored.begin(), stored.end(), [](int times) { return times == 1; });
    bool bad = !(worst <= limit) || !(sqrt(error) <= limit / 6) || conflicts || !once;
    printf("decoder_masks grid %d, score %g, from 0 %g, late %d: spread %.2f, max abs %.2e (%.1e of it), rms %.1e of it, bank conflicts %ld of %ld%s %s\n", grid, score, far,
           lazy, spread, worst, present ? worst / spread : 0, present ? sqrt(error) / spread : 0, conflicts, loads, once ? "" : ", logits are left out or stored again", bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}

int main(int count, char** words) {
    test(4, true, 0.5);
    test(10, false, 1e-30f, 3);
    test(6, true, 0);
    if (count > 1 && !strcmp(words[1], "shipped")) return 0;
    test(2, true, 1);
    test(4, false, -1);
    test(4, true, NAN);
    test(16, true, INFINITY, 10);
    test(32, true, 3);
    test(48, false, 3);
    test(64, true, 3);
}
