/*!
What the programs of this folder share: tensors that nothing may be read or written beside,
launches, a warp's access to shared memory with a count of bank conflicts, and how a result is
compared with a float64 reference.
*/
#pragma once
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include "machine.h"
#include "dependents.h"
typedef std::vector<double> Numbers;

/// With the argument `shipped` a program runs few cases: those that the tests wait for.
static bool shipped_alone(int count, char** words) { return count > 1 && !strcmp(words[1], "shipped"); }

// ---- primitives that several kernels have ----

/// How far off an approximate instruction is: as far as it may be.
static float off_by(float most) { return most; }
static float reciprocal_root(float x) { return (1 + 0x1p-22f) / sqrtf(x); }
static float reciprocal_root_ftz(float x) { return reciprocal_root(x); }
static float reciprocal(float x) { return (1 - 0x1p-23f) / x; }

/// A warp's access to shared memory, BYTES a lane. Counted as a conflict: each time that a bank is
/// asked for another of its words by lanes which the hardware serves at once. `together`: false
/// where only a part of the lanes come here, which are not counted.
template <int BYTES> static void* shared_bytes(u32 address, bool together = true) {
    here(address);
    if (address % BYTES || address + BYTES > memory.size()) {
        printf("bad access to shared memory\n");
        exit(1);
    }
    if (together) collective(&address, [](Fiber* f) {
        for (int first = 0; first < 32; first += 128 / BYTES) {
            u32 words[32], count = 0; int of_bank[32] = {0}, most = 1;
            for (int l = first; l < first + 128 / BYTES; l++) for (int i = 0; i < BYTES; i += 4) {
                u32 word = (*(u32*)f[l].args + i) / 4;
                if (std::find(words, words + count, word) == words + count)
                    words[count++] = word, most = std::max(most, ++of_bank[word % 32]);
            }
            loads++, conflicts += most - 1;
        }
    });
    return &memory[address];
}
template <class T>
static T shared_value(u32 a, bool together = true) {
    T r;
    memcpy(&r, shared_bytes<sizeof(T)>(a, together), sizeof r);
    return r;
}
template <class T>
static void store_shared_value(u32 a, T x, bool together = true) {
    memcpy(shared_bytes<sizeof(T)>(a, together), &x, sizeof x);
}

// ---- tensors ----

/// Where tensors begin and end.
static std::map<const char*, const char*> tensors;
/// `from`, if that many bytes of one tensor begin there.
static const void* inside(const void* from, size_t bytes) {
    auto next = tensors.upper_bound((const char*)from);
    if ((size_t)from % bytes || next == tensors.begin() ||
        (const char*)from + bytes > std::prev(next)->second) {
        printf("beyond a tensor, or misaligned\n");
        exit(1);
    }
    return from;
}
static void stop_beyond(int) {
    const char said[] = "a read or a write behind a tensor\n";
    (void)!write(1, said, sizeof said - 1), _exit(1);
}

/// Memory ends where a tensor does: who reads or writes behind it ends the program. In front of it,
/// and behind it up to 16 bytes, lies `nothing`, which a result shows where it was read (a NaN) and
/// `beyond` finds where it was overwritten.
template <class T> struct Tensor {
    size_t count; T nothing; unsigned char* all; size_t mapped; T* first;
    static const size_t PAGE = 1 << 16;
    Tensor(size_t n, T nothing) : count(n), nothing(nothing) {
        static const bool watched = signal(SIGSEGV, stop_beyond) != SIG_ERR;
        const size_t own = (n * sizeof(T) + 15) / 16 * 16, bytes = (own + PAGE - 1) / PAGE * PAGE + PAGE;
        mapped = bytes + PAGE;
        all =
            (unsigned char*)mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!watched || all == MAP_FAILED || mprotect(all + bytes, PAGE, PROT_NONE)) {
            printf("no memory\n");
            exit(1);
        }
        first = (T*)(all + bytes - own);
        std::fill((T*)all, (T*)(all + bytes), nothing);
        tensors[(char*)first] = (char*)(first + n);
    }
    Tensor(const Tensor& other) : Tensor(other.count, other.nothing) {
        std::copy_n(other.first, count, first);
    }
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() { tensors.erase((char*)first), munmap(all, mapped); }
    T* data() { return first; }
    T& operator[](size_t i) { return first[i]; }
    double at(size_t i) const { return std::is_same<T, f16>::value ? half((f16)first[i]) : (double)first[i]; }
    Numbers values() const { Numbers y(count); for (size_t i = 0; i < count; i++) y[i] = at(i); return y; }
    template <class D> void fill(D draw) { for (size_t i = 0; i < count; i++) first[i] = draw(i); }
    /// How many elements around the tensor were written.
    long beyond() const {
        long n = 0;
        for (T* t = (T*)all; t < (T*)(all + mapped - PAGE); t++)
            n += (t < first || t >= first + count) && memcmp(t, &nothing, sizeof nothing);
        return n;
    }
    /// Whether `n` elements begin there, aligned as one access to them must be.
    bool holds(const void* to, size_t n) const {
        return (size_t)to % (n * sizeof(T)) == 0 && (T*)to >= first && (T*)to + n <= first + count;
    }
};
static std::normal_distribution<float> normal;
static auto halves(float scale, float mean = 0) {
    return [=](size_t) { return tohalf(normal(rng) * scale + mean); };
}
static auto floats(float scale, float mean = 0) { return [=](size_t) { return normal(rng) * scale + mean; }; }
struct Reals : Tensor<float> {
    Reals(size_t n) : Tensor(n, NAN) {}
    Reals(size_t n, float scale, float about = 0) : Reals(n) { fill(floats(scale, about)); }
};
struct Halves : Tensor<f16> {
    static const f16 NONE = 0x7e00;
    Halves(size_t n) : Tensor(n, NONE) {}
    Halves(size_t n, float scale, float about = 0) : Halves(n) { fill(halves(scale, about)); }
};

/// Counts how often each element of a result is stored; a store beside it ends the program.
template <class T> struct Stored {
    const Tensor<T>* of = nullptr; std::vector<int> times;
    void watch(const Tensor<T>& result) { of = &result, times.assign(result.count, 0); }
    T* at(void* to, size_t n) {
        if (!of->holds(to, n)) { printf("a store outside\n"); exit(1); }
        for (size_t i = 0; i < n; i++) times[(T*)to - of->first + i]++;
        return (T*)to;
    }
};

// ---- launches ----

/// Of the next launch: what the kernel or one before it writes. Each thread must wait before it touches that.
static std::vector<Region> dependent_on;
template <class... T>
static void depends_on(T&... tensors) {
    dependent_on = {Region{tensors.data(), tensors.count * sizeof tensors[0]}...};
}

/// One block, as blockIdx says: with `bytes` of shared memory that begins at 1024 and holds nothing but NaNs.
template <class F> static void one_block(int threads, u32 bytes, F kernel) {
    memory.assign(1024 + bytes, 0xff), unpublished.clear(), forget_copies();
    forget_turns();
#ifdef HOPPER
    late_products = rng() & 1, barriers.clear();
    for (auto& x : queue) x.clear();
#endif
    if (dependent_on.empty()) run_block(threads, kernel);
    else run_dependent(dependent_on.data(), dependent_on.size(), [&] { run_block(threads, kernel); });
    for (auto& t : turns) if (t.arrived) { printf("a turn is left over\n"); exit(1); }
}
/// All blocks of a grid, or every EVERYth and the last one.
template <class F> static void launch(Dim grid, int threads, u32 bytes, F kernel, unsigned every = 1) {
    gridDim = grid, blockDim = {(unsigned)threads, 1, 1};
    unsigned at = 0, last = grid.x * grid.y * grid.z - 1;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++, at++) {
                if (at % every && at != last) continue;
                blockIdx = {x, y, z}, one_block(threads, bytes, kernel);
            }
    dependent_on.clear();
}

/// The same of a kernel whose shared memory is an S.
template <class S, class F> static void launch_with(Dim grid, int threads, F kernel) {
    std::vector<unsigned char> bytes(sizeof(S) + alignof(S));
    S& shared = *(S*)(((size_t)bytes.data() + alignof(S) - 1) / alignof(S) * alignof(S));
    long begun = -1;
    launch(grid, threads, 0, [&] {
        const long block = ((long)blockIdx.z * grid.y + blockIdx.y) * grid.x + blockIdx.x;
        if (begun != block) begun = block, memset((void*)&shared, 0xff, sizeof shared);
        kernel(shared);
    });
}

// ---- comparisons ----

/// What is no number is far off.
static double far_if_nan(double x) { return std::isnan(x) ? 1e9 : x; }
static bool exceeds(double error, double limit) { return !(error < limit); }
/// How far numbers are off: the most of any, and all of them beside what is wanted.
struct Errors {
    double most = 0, square = 0, size = 0;
    void add(double found, double wanted) {
        double d = far_if_nan(fabs(found - wanted));
        most = std::max(most, d), square += d * d, size += wanted * wanted;
    }
    double relative() const { return sqrt(square / size); }
};
/// Errors beside a number's own size or the usual one, whichever is larger: the worst, and the root
/// of the mean square. `has(i)`: whether number i was computed.
struct Shares { double worst = 0, usual = 0; };
template <class T, class H> static Shares shares_of(const T& found, const Numbers& wanted, H has) {
    Shares all; double square = 0; size_t n = 0;
    for (size_t i = 0; i < wanted.size(); i++) if (has(i)) square += wanted[i] * wanted[i], n++;
    const double size = sqrt(square / n);
    for (size_t i = 0; i < wanted.size(); i++) if (has(i)) {
        double d = far_if_nan(fabs(found.at(i) - wanted[i]));
        if (d != 0) d /= std::max(fabs(wanted[i]), size);
        all.worst = std::max(all.worst, d), all.usual += d * d;
    }
    all.usual = sqrt(all.usual / n);
    return all;
}
/// The end of a line about a case; the first bad one ends the program. A bank conflict is bad beyond `known`.
static void verdict(bool bad, long known = 0) {
    bad |= conflicts > known;
    printf(", bank conflicts %ld of %ld %s\n", conflicts, loads, bad ? "BAD" : "ok");
    fflush(stdout), conflicts = loads = 0;
    if (bad) exit(1);
}

// ---- references ----

static double gelu64(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
static double dot(const double* a, const double* b, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}
/// A row less its mean, by its deviation, times a weight and plus a bias.
static void normalize64(double* x, int n, const float* weight, const float* bias, double epsilon) {
    double mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++) x[i] = (x[i] - mean) / sqrt(square + epsilon) * weight[i] + bias[i];
}
#include "ptx.h"
