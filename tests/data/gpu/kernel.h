// A kernel as the stand-in driver calls it, and tables of them.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

// Of a programmatic dependent launch: memory that this kernel and those before it write. Null: another launch.
struct Region;
struct Launch {
    unsigned grid[3], threads, shared;
    const Region* written;
    size_t regions;
};
struct Kernel {
    const char* name;
    void (*call)(void**);
    int parameters;
    // Runs all threads of a launch; blocks of a cluster run at once.
    void (*run)(const Kernel&, const Launch&, void** values);
    unsigned cluster;
    // A bit for each parameter that it writes to: a pointer to what is not constant.
    unsigned writes;
};
struct Table {
    const Kernel* first;
    size_t count;
};

template <auto KERNEL, class... A, size_t... I>
void unpack(void (*)(A...), void** values, std::index_sequence<I...>) {
    KERNEL(*static_cast<A*>(values[I])...);
}
template <auto KERNEL, class... A> void unpack(void (*kernel)(A...), void** values) {
    unpack<KERNEL>(kernel, values, std::index_sequence_for<A...>());
}
template <auto KERNEL> void call(void** values) { unpack<KERNEL>(KERNEL, values); }
template <class... A> constexpr unsigned writes(void (*)(A...)) {
    unsigned bits = 0, at = 0;
    ((bits |= (unsigned)(std::is_pointer_v<A> && !std::is_const_v<std::remove_pointer_t<A>>) << at++), ...);
    return bits;
}
// Whether a block of a launch runs as one of a dependent launch, which takes long: the first, one in the middle, the last.
inline bool is_dependent(const Launch& of, unsigned x, unsigned y, unsigned z) {
    const unsigned all = of.grid[0] * of.grid[1] * of.grid[2], at = (z * of.grid[1] + y) * of.grid[0] + x;
    return of.written && (at == 0 || at == all / 2 || at + 1 == all);
}
template <class... A> constexpr int count(void (*)(A...)) {
    static_assert(((sizeof(A) <= 8) && ...), "the stand-in driver keeps a word a parameter");
    return (int)sizeof...(A);
}
