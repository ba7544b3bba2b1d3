/*!
Runs the GEMMs with an epilogue for any GPU (cuda/gemm.cu) on the CPU (machine.h) and compares with float64: ragged tiles, copies that come late.
*/
#include "harness.h"
static const unsigned char *ahead_first, *ahead_end; static std::vector<int> fetched;
static const Reals* kept_rows;
static void prefetch_far_line(const void* from) {
    const unsigned char *at = (const unsigned char*)from, *kept = (const unsigned char*)kept_rows->first;
    if (at >= kept && at < kept + kept_rows->count * 4) return;
    if (at < ahead_first || at + 128 > ahead_end || (at - ahead_first) % 128) stop("a line outside");
    fetched[(at - ahead_first) / 128]++;
}
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "gemm_ampere.h"

static void gemm_of(int wide, bool activated, int m, int n, int k, bool late_copies) {
    late = late_copies;
    Halves a((size_t)m * k, 1), w((size_t)n * k, 1 / sqrtf(k)), bias(n, 1), out((size_t)m * n);
    const unsigned tiles = (m + 127) / 128 * ((n + wide - 1) / wide);
    launch({tiles, 1, 1}, wide / WARP_COLUMNS * COLUMN_THREADS, STAGES * (128 + wide) * CHUNK_ROW, [&] {
        gemm({a.data(), w.data(), m, n, k}, bias.data(), out.data(), activated, 1024);
    });
    Errors errors; Numbers t = a.values(), v = w.values();
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        const double s = bias.at(j) + dot(&t[(size_t)i * k], &v[(size_t)j * k], k);
        errors.add(out.at((size_t)i * n + j), activated ? gelu64(s) : s);
    }
    printf("128 x %d, gelu %d, %d x %d x %d, late %d: max abs %.2e rel %.2e", wide, activated, m, n, k, late_copies, errors.most, errors.relative());
    verdict(exceeds(errors.most, 5e-3) || exceeds(errors.relative(), 6e-4) || out.beyond());
}

/// `in_place`: what is normalised goes where the tokens came from, k being the columns.
static void norm_of(int m, int n, int k, bool late_copies, bool in_place = false, float offset = 0) {
    late = late_copies;
    Halves a((size_t)m * k, 1), w((size_t)n * k, 1 / sqrtf(k)), apart((size_t)m * n);
    Halves& out = in_place ? a : apart;
    Reals residual((size_t)m * n, 1, offset), bias(n, 1), weight(n, 1, 1), shift(n, 1);
    const Numbers t = a.values(), v = w.values(), old = residual.values();
    std::vector<unsigned char> behind(128 * 1000); fetched.assign(1000, 0);
    ahead_first = behind.data(), ahead_end = ahead_first + behind.size(), kept_rows = &residual;
    launch({(unsigned)(m + 63) / 64, 1, 1}, (n + WARP_COLUMNS - 1) / WARP_COLUMNS * COLUMN_THREADS, STAGES * (NORM_ROWS + n) * CHUNK_ROW, [&] {
        gemm_layernorm({a.data(), w.data(), m, n, k}, {bias.data(), weight.data(), shift.data(), residual.data(), out.data(), ahead_first, 1000}, 1024);
    });
    Errors sums, errors;
    for (int i = 0; i < m; i++) {
        Numbers row(n);
        for (int j = 0; j < n; j++) {
            row[j] = old[(size_t)i * n + j] + bias.at(j) + dot(&t[(size_t)i * k], &v[(size_t)j * k], k);
            sums.add(residual.at((size_t)i * n + j), row[j]);
        }
        normalize64(row.data(), n, weight.data(), shift.data(), 1e-6);
        for (int j = 0; j < n; j++) errors.add(out.at((size_t)i * n + j), row[j]);
    }
    bool once = std::all_of(fetched.begin(), fetched.end(), [](int times) { return times == 1; });
    printf("layernorm %d x %d x %d, late %d, in place %d, offset %g: max abs %.2e (residual), %.2e%s", m, n, k, late_copies, in_place, offset, sums.most, errors.most,
           once ? "" : ", lines are left out or asked for again");
    verdict(exceeds(sums.most, 1e-4 + offset * 2e-6) || exceeds(errors.most, 8e-3) || !once || out.beyond() || residual.beyond());
}

int main(int count, char** words) {
    gemm_of(96, true, 33, 112, 48, true), gemm_of(192, false, 129, 208, 112, true);
    norm_of(70, 112, 144, true), norm_of(65, 96, 96, true, true, 50);
    if (shipped_alone(count, words)) return 0;
    for (int wide : {96, 192}) for (bool l : {false, true})
        gemm_of(wide, true, 1, 16, 16, l), gemm_of(wide, true, 300, 336, 32, l), gemm_of(wide, false, 128, 448, 96, l), gemm_of(wide, true, 257, 288, 224, l);
    for (bool late_copies : {false, true}) for (int n : {16, 48, 64, 96, 112, 144, 192, 224, 288, 384, 448}) {
        norm_of(33, n, 80, late_copies, false, 300), norm_of(130, n, n, late_copies, true, 10);
        if (n <= 144) norm_of(129, n, 4 * n, late_copies), norm_of(1, n, 16, late_copies);
    }
}
