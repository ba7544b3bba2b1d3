/*!
Runs the source of the memory encoder's join (cuda/memory_join.cu) on the CPU (machine.h) and compares every column with a float64 reference that
knows a convolution, a norm and linear layers, not tiles: grids whose rows are shorter than a tile, a tile and a bit, and several tiles; rows of channels
that begin at multiples of 16 bytes and others; what the norm is given far from 0. The reference rounds what the kernel rounds, and once nothing: what
that costs is shown.
*/
#include <sys/mman.h>
#include "machine.h"
/// A warp's access to shared memory, BYTES a lane. What is counted: how often a bank is asked for another of its words by lanes whose access is one.
template <int BYTES> static void* shared_bytes(u32 address) {
    if (address % BYTES || address + BYTES > memory.size()) { printf("bad access to shared memory\n"); exit(1); }
    collective(&address, [&](Fiber* f) {
        for (int first = 0; first < 32; first += 128 / BYTES) {
            std::vector<u32> banks[32];
            for (int l = first; l < std::min(32, first + 128 / BYTES); l++) for (int i = 0; i < BYTES; i += 4) {
                u32 word = (*(u32*)f[l].args + i) / 4; auto& bank = banks[word % 32];
                if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
            }
            size_t most = 1; for (auto& bank : banks) most = std::max(most, bank.size());
            loads++, conflicts += most - 1;
        }
    });
    return &memory[address];
}
static const f16 *x_first, *x_end; static std::vector<int> stored;  // how often each unit of x was
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static float4 load_shared_floats(u32 a) { float4 r; memcpy(&r, shared_bytes<16>(a), 16); return r; }
static void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
static void store_shared_pair(u32 a, float first, float second) { const float r[2] = {first, second}; memcpy(shared_bytes<8>(a), r, 8); }
static void store_unit(f16* to, const u32 (&r)[4]) {
    if ((size_t)to % 16 || to < x_first || to + 8 > x_end) { printf("a store outside\n"); exit(1); }
    memcpy(to, r, 16), stored[(to - x_first) / 8]++;
}
// As far off as the instruction may be.
static float reciprocal_root(float x) { return (1 + 0x1p-22f) / sqrtf(x); }
#include "../../cuda/halves.cuh"
#include "../../cuda/gelu.cuh"
#include "body.inc"

/// Memory ends where a tensor does, so that a read behind it ends the program; what lies in front of it is a NaN.
template <class T> struct Tensor {
    unsigned char* all; size_t mapped, count; T* first;
    static const size_t PAGE = 1 << 16;
    Tensor(size_t n, T nothing) : count(n) {
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
    std::vector<double> doubles() { std::vector<double> all(count); for (size_t i = 0; i < count; i++) all[i] = sizeof(T) == 2 ? half(data()[i]) : data()[i]; return all; }
};
using Halves = Tensor<f16>; using Floats = Tensor<float>;
static const f16 NONE = 0x7e00;

static double gelu64(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
static double dot(const double* a, const double* b, int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }

/// `far`: how far the convolution lies from 0, in its spreads. `every`: of the blocks, one of so many is run, and its tokens are compared.
/// `alone`: 1 without features, 2 without a mask. `spread`: of the convolution; a small one shows what the norm adds to squares.
static void test(int grid, bool late_copies, float far = 0, int every = 1, int alone = 0, float spread = 1) {
    late = late_copies; conflicts = loads = 0;
    std::normal_distribution<float> normal;
    const int tokens = grid * grid, side = 2 * grid;
    auto halves = [&](float scale) { return [=, &normal](size_t) { return tohalf(normal(rng) * scale); }; };
    auto floats = [&](float scale, float mean = 0) { return [=, &normal](size_t) { return normal(rng) * scale + mean; }; };
    Halves wide((size_t)side * side * 64, NONE), weight(256 * 576, NONE), mask_weight(65536, NONE), feat((size_t)256 * tokens, NONE), feature_weight(65536, NONE), x((size_t)tokens * 256, NONE);
    Floats bias(256, NAN), norm_weight(256, NAN), norm_bias(256, NAN), sum_bias(256, NAN);
    wide.fill(halves(spread)), weight.fill(halves(1 / 24.0f)), bias.fill(floats(0.3f * spread, far * spread)), norm_weight.fill(floats(0.2f, 1)), norm_bias.fill(floats(0.3f));
    mask_weight.fill(halves(alone == 2 ? 0 : 1 / 8.0f)), feat.fill(halves(1)), feature_weight.fill(halves(alone == 1 ? 0 : 1 / 16.0f)), sum_bias.fill(floats(0.5f));
    JoinProblem p{wide.data(), weight.data(), bias.data(), norm_weight.data(), norm_bias.data(), mask_weight.data(), feat.data(), feature_weight.data(), sum_bias.data(), x.data(), grid};
    x_first = x.data(), x_end = x_first + x.count, stored.assign(x.count / 8, 0);
    gridDim = {(unsigned)(grid + ACROSS - 1) / ACROSS, (unsigned)grid / DOWN, 1}; blockDim = {JOIN_THREADS, 1, 1};
    std::vector<char> ran(tokens);
    int blocks = 0;
    for (unsigned b = 0; b < gridDim.x * gridDim.y; b += every, blocks++) {
        blockIdx = {b % gridDim.x, b / gridDim.x, 0}; memory.assign(1024 + JOIN_BYTES, 0xff); unpublished.clear();
        for (int t = 0; t < tokens; t++) if (t / grid / DOWN == (int)blockIdx.y && t % grid / ACROSS == (int)blockIdx.x) ran[t] = 1;
        run_block(JOIN_THREADS, [&] { Join join; join.run(p, 1024); });
    }
    std::vector<double> pixels = wide.doubles(), w = weight.doubles(), m = mask_weight.doubles(), f = feat.doubles(), fw = feature_weight.doubles(), got = x.doubles();
    double worst = 0, square[3] = {}; long wrong = 0;
    std::vector<double> errors, sizes;
    for (int t = 0; t < tokens; t++) {
        for (int i = 0; i < 32; i++) wrong += stored[t * 32 + i] != ran[t];
        if (!ran[t]) continue;
        double hidden[256], rounded[256], own[256], window[576] = {}, mean = 0, var = 0;
        for (int tap = 0; tap < 9; tap++) {
            int py = t / grid * 2 + tap / 3 - 1, px = t % grid * 2 + tap % 3 - 1;
            if (py >= 0 && py < side && px >= 0 && px < side) std::copy_n(&pixels[((size_t)py * side + px) * 64], 64, window + tap * 64);
        }
        for (int c = 0; c < 256; c++) hidden[c] = bias.data()[c] + dot(window, &w[c * 576], 576), mean += hidden[c] / 256;
        for (int c = 0; c < 256; c++) var += (hidden[c] - mean) * (hidden[c] - mean) / 256;
        for (int c = 0; c < 256; c++) {
            hidden[c] = gelu64((hidden[c] - mean) / sqrt(var + 1e-6) * norm_weight.data()[c] + norm_bias.data()[c]);
            rounded[c] = half(tohalf(hidden[c])), own[c] = f[(size_t)c * tokens + t];
        }
        for (int c = 0; c < 256; c++) {
            double both = sum_bias.data()[c] + dot(own, &fw[c * 256], 256), wanted = both + dot(rounded, &m[c * 256], 256), exact = both + dot(hidden, &m[c * 256], 256);
            double is = got[(size_t)t * 256 + c];
            errors.push_back(std::isnan(is) ? 1e9 : fabs(is - wanted)), sizes.push_back(fabs(wanted));
            square[0] += wanted * wanted, square[1] += (is - exact) * (is - exact), square[2] += (is - wanted) * (is - wanted);
        }
    }
    // What a half is off is a share of it; what sums of many are off, of what they usually are.
    double usual = sqrt(square[0] / errors.size());
    for (size_t i = 0; i < errors.size(); i++) worst = std::max(worst, errors[i] / std::max(sizes[i], usual));
    double root = sqrt(square[2] / square[0]), unrounded = sqrt(square[1] / square[0]);
    // Rounding x costs 4.9e-4 at most, and one number of hidden that the kernel rounds the other way, being 4e-6 off, some 3e-4.
    bool bad = !(worst < 1e-3) || !(root < 2.3e-4) || !(unrounded < 3.2e-4) || conflicts || wrong;
    printf("memory_join grid %d, %d of %d blocks, late %d, far %.0f, alone %d, spread %.2f: worst %.2e, root mean square %.2e (%.2e with what halves of hidden cost), units not stored once %ld, bank conflicts %ld of %ld %s\n", grid,
           blocks, (int)(gridDim.x * gridDim.y), late_copies, far, alone, spread, worst, root, unrounded, wrong, conflicts, loads, bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}

int main(int count, char** words) {
    test(4, true);
    test(6, false);
    test(8, true, 8);
    test(18, true, 0, 7, 0, 0.01f);
    test(24, true, 0, 23);
    if (count > 1 && !strcmp(words[1], "shipped")) return 0;
    for (bool late_copies : {false, true}) {
        test(4, late_copies, 0, 1, 1);
        test(10, late_copies);
        test(16, late_copies, 0, 1, 2);
        test(24, late_copies, 3, 5);
        test(32, late_copies);
        test(64, late_copies, 0, 9);
    }
}
