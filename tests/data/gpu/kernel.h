// A kernel as the stand-in driver calls it, and tables of them.
#pragma once
#include <cstddef>
#include <utility>

struct Launch {
    unsigned grid[3], threads, shared;
};
struct Kernel {
    const char* name;
    void (*call)(void**);
    int parameters;
    // Runs all threads of a launch; blocks of a cluster run at once.
    void (*run)(const Kernel&, const Launch&, void** values);
    unsigned cluster;
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
template <class... A> constexpr int count(void (*)(A...)) {
    static_assert(((sizeof(A) <= 8) && ...), "the stand-in driver keeps a word a parameter");
    return (int)sizeof...(A);
}
