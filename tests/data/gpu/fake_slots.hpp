// What the stand-ins for TensorRT 8.6 have in common: vtables made by hand, with methods at the slots of the shim's own tables.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "abi_generated.hpp"
#include "callbacks.hpp"

namespace fake {

using namespace trtdl;
namespace m = trtdl::method;

using Slot = void (*)();
constexpr int kSlots = 64;

[[noreturn]] inline void unexpected() {
    std::fprintf(stderr, "the stand-in for TensorRT lacks a method that was called\n");
    std::abort();
}

/// A vtable made by hand: the tables of the shim say where each method is.
struct Table {
    Slot slots[kSlots];
    Table() {
        for (Slot& slot : slots) slot = unexpected;
    }
    template <class M>
    Table& with(typename M::Fn* fn) {
        slots[kMethods[M::index][Trt8].at] = reinterpret_cast<Slot>(fn);
        return *this;
    }
};

/// What users hold: a vtable with the destructor, and a pointer to the implementation, which has the methods.
struct Inner {
    const Table* methods;
};
struct Outer {
    const Table* own;
    Inner* inner;
};
template <void (*Delete)(void*)>
Outer* hold(Inner* inner) {
    static const Table own = Table().with<m::NoCopy_deletingDestructor>(Delete);
    return new Outer{&own, inner};
}

}  // namespace fake
