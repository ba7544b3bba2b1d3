// A kernel as the stand-in driver calls it.
#pragma once
#include <utility>

struct Kernel {
    const char* name;
    void (*call)(void**);
    int parameters;
    // Runs all threads of a launch.
    void (*launch)(void (*call)(void**), const unsigned grid[3], unsigned threads, void** values);
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
