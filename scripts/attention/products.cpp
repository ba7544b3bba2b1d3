/*!
Runs the products' own source (cuda/products_hopper.cu) on the CPU (machine.h), a cluster of blocks at a time, and compares with float64.
The copy engine brings each box to each block whenever it likes: at once, or long after; what an order says it writes is written, zeros and all.
*/
#define HOPPER
#include "machine.h"
#define power_of_two power_of_two_of_halves
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
#include "../../cuda/common.cuh"
#include "../../cuda/gelu.cuh"

/// A matrix of halves and its boxes of 64 columns.
struct TensorMap { const u16* data; int rows, columns, box; };
struct Box { u32 to; const TensorMap* map; int column, row; u32 barrier; };
static std::vector<Box> under_way; static bool slow;

static u32 cluster_size;
static u32 cluster_rank() { return block_of(me->id); }
static void cluster_barrier() { block_barrier(); }
static void barriers_publish() {}
static void prefetch_map(const TensorMap*) {}
static void here(u32 address) { if (address >> 18 != block_of(me->id)) { printf("an address of another block's\n"); exit(1); } }
static void barrier_expect(u32 b, u32 bytes) { here(b); barrier_step(barriers.at(b), 1, bytes); }
static void barrier_arrive_at(u32 b, u32 rank) {
    here(b);
    if (rank >= cluster_size || fibers[rank * block_threads].state == DONE) { printf("block %u is not there\n", rank); exit(1); }
    barrier_arrive((b & 0x3ffff) | rank << 18);
}
static void land(const Box& b) {
    if (b.to % 1024) { printf("a box across the swizzle's pattern\n"); exit(1); }
    for (int r = 0; r < b.map->box; r++) for (int c = 0; c < 64; c++) {
        int row = b.row + r, column = b.column + c; u32 at = r * 128 + c * 2;
        u16 x = row < b.map->rows && column < b.map->columns ? b.map->data[(long)row * b.map->columns + column] : 0;
        memcpy(&memory.at(b.to + (at ^ ((at >> 7 & 7) << 4))), &x, 2);
    }
    barrier_step(barriers.at(b.barrier), 0, -(long)b.map->box * 128);
}
template <bool SEVERAL> static void fetch_box(u32 to, const TensorMap* map, i32 column, i32 row, u32 barrier, u32 blocks) {
    here(to), here(barrier);
    if (blocks >> cluster_size || !(blocks >> block_of(me->id) & 1) || (!SEVERAL && blocks != 1u << block_of(me->id))) { printf("bad mask %x\n", blocks); exit(1); }
    for (u32 rank = 0; rank < cluster_size; rank++) if (blocks >> rank & 1) {
        Box box{(to & 0x3ffff) | rank << 18, map, column, row, (barrier & 0x3ffff) | rank << 18};
        if (slow) under_way.push_back(box); else land(box);
    }
}
static void store_matrices(u32 address, const u32 (&r)[4]) {
    struct St { u32 address; const u32* r; } own{address, r};
    collective(&own, [&](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            int banks[8] = {0};
            for (int q = 0; q < 8; q++) {
                u32 a = ((St*)f[i * 8 + q].args)->address; loads++;
                if (a % 16 || a + 16 > memory.size()) { printf("bad stmatrix\n"); exit(1); }
                conflicts += banks[a / 16 % 8]++ > 0;
                for (int t = 0; t < 4; t++) memcpy(&memory[a + t * 4], &((St*)f[q * 4 + t].args)->r[i], 4);
            }
        }
    });
}
static uint4 shared_unit(u32 a) { uint4 r; here(a); if (a % 16) exit(1); memcpy(&r, &memory[a], 16); return r; }
static void prefetch_line(const void* from) { (void)*(volatile const u16*)from; }
static const u16 *out_first, *out_end;
static void store_unit(void* to, uint4 x) {
    if ((size_t)to % 16 || to < out_first || (u16*)to + 8 > out_end) { printf("a store outside\n"); exit(1); }
    memcpy(to, &x, 16);
}
#include "products.inc"

template <class P> static void test(const char* name, int m, int n, int k, int clusters, bool lazy) {
    std::normal_distribution<float> normal;
    auto drawn = [&](long count, float scale) { std::vector<u16> v(count + 8); for (auto& x : v) x = tohalf(normal(rng) * scale); return v; };
    std::vector<u16> a = drawn((long)m * k, 1), w = drawn((long)n * k, 1 / sqrtf(k)), bias = drawn(n, 1), memory_out((long)m * n + 64, 0x7e00);
    u16* out = (u16*)(((size_t)memory_out.data() + 15) / 16 * 16); out_first = out, out_end = out + (long)m * n;
    const TensorMap tokens{a.data(), m, k, P::TOKEN_ROWS}, weights{w.data(), n, k, P::WEIGHT_ROWS};
    int across = (n + P::COLUMNS * P::ACROSS - 1) / (P::COLUMNS * P::ACROSS), tiles = across * ((m + P::ROWS * P::DOWN - 1) / (P::ROWS * P::DOWN));
    clusters = std::min(clusters, tiles), slow = lazy, block_threads = P::THREADS, cluster_size = P::CLUSTER, conflicts = loads = 0;
    gridDim = {(unsigned)clusters * P::CLUSTER, 1, 1}, blockDim = {P::THREADS, 1, 1};
    for (int c = 0; c < clusters; c++) {
        blockIdx = {(unsigned)c * P::CLUSTER, 0, 0}, memory.assign(P::CLUSTER << 18, 0xff), late_products = rng() & 1;
        barriers.clear(), under_way.clear(); for (auto& t : turns) t = {0, 0}; for (auto& x : queue) x.clear();
        const int hurry = 1 + rng() % 4;
        beside = [&] {
            for (int times = rng() % 3; times > 0 && !under_way.empty() && rng() % hurry == 0; times--) {
                size_t i = rng() % under_way.size(); Box box = under_way[i]; under_way.erase(under_way.begin() + i); land(box);
            }
        };
        run_block(P::THREADS * P::CLUSTER, [&] { P p; p.run(&tokens, &weights, bias.data(), out, m, n, k, block_of(me->id) << 18 | 1024); });
        for (auto& t : turns) if (t.arrived) { printf("a turn is left over\n"); exit(1); }
        if (!under_way.empty()) { printf("a box comes after the end\n"); exit(1); }
        for (auto& b : barriers) if (b.second.bytes || b.second.left != b.second.count) { printf("a barrier is left between phases\n"); exit(1); }
    }
    double err = 0, norm = 0, worst = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        double s = half(bias[j]); for (int c = 0; c < k; c++) s += (double)half(a[(long)i * k + c]) * half(w[(long)j * k + c]);
        double wanted = 0.5 * s * erfc(-s / sqrt(2)), d = half(out[(long)i * n + j]) - wanted;
        if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d);
        err += d * d, norm += wanted * wanted;
    }
    bool bad = !(worst < 5e-3) || !(sqrt(err / norm) < 6e-4) || conflicts;
    printf("%s %d x %d x %d, %d clusters, slow %d: max abs %.2e rel %.2e, bank conflicts %ld of %ld %s\n", name, m, n, k, clusters, lazy, worst, sqrt(err / norm), conflicts, loads, bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}
template <class P> static void suite(const char* name, bool all) {
    test<P>(name, 33, 64, 96, 1, true);
    test<P>(name, 385, 448, 144, 2, true);
    test<P>(name, 129, 384 * P::ACROSS, 464, 1, true);  // more chunks a tile than slots: phases of a tile that is not begun yet
    if (!all) return;
    test<P>(name, 300, 384, 64, 1, false);
    test<P>(name, 1100, 128, 112, 1, true);
    test<P>(name, 129, 576, 576, 1, true);
    test<P>(name, 513, 320, 416, 2, true);
    test<P>(name, 257, 768, 80, 3, true);
}
int main(int count, char**) {
    bool all = count == 1;
    suite<Product<128, 6, 2, 1>>("128 by 2", all);
    suite<Product<192, 5, 2, 1>>("192 by 2", all);
    suite<Product<128, 6, 2, 2>>("128 by 4", all);
    suite<Product<192, 5, 2, 2>>("192 by 4", all);
}
