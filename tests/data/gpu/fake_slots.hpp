// What the stand-ins for TensorRT have in common: vtables made by hand, with methods at the slots of the shim's own tables
// (crates/tensorrt/abi/releases.tsv). FAKE_RELEASE, say "Trt10, 3, 100300", is the family, the minor release and what
// getInferLibVersion answers; else it is 8.6.1. A method that the release lacks is no part of its vtables: whoever calls it aborts.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "abi_generated.hpp"
#include "callbacks.hpp"

namespace fake {

using namespace trtdl;
namespace m = trtdl::method;

using Slot = void (*)();
constexpr int kSlots = 64;

#ifndef FAKE_RELEASE
#define FAKE_RELEASE Trt8, 6, 8601
#endif
struct Release {
    int family, minor, version;
};
constexpr Release kRelease = {FAKE_RELEASE};
/// What users hand over: from 10 on with the methods of IVersionedInterface.
using Allocator = std::conditional<kRelease.family == Trt8, PlainAllocator, VersionedAllocator>::type;

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
        const Place place = kMethods[M::index][kRelease.family];
        if (place.at >= 0 && place.since <= kRelease.minor) slots[place.at] = reinterpret_cast<Slot>(fn);
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
