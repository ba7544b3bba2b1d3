// Calls a virtual method of TensorRT through its vtable slot, with the calling form that its header declares.
#pragma once
#include <cstdint>
#include <cstring>

#include "abi_generated.hpp"
#include "shim.h"

struct trtdl_api {
    trtdl_entry_points entry;
    void* logger;
};

namespace trtdl {

/// The slot or value in this release, -1 where the family has none or got it later.
constexpr int32_t place(const Place (&row)[FamilyCount], int32_t family, int32_t minor) {
    return family >= 0 && family < FamilyCount && row[family].since <= minor ? row[family].at : -1;
}

inline int32_t slot(const trtdl_api* api, int index) {
    return place(kMethods[index], api->entry.family, api->entry.minor);
}

template <class M>
bool has(const trtdl_api* api) {
    return slot(api, M::index) >= 0;
}

template <int Rows>
int32_t value(const trtdl_api* api, const Place (&table)[Rows][FamilyCount], int32_t name) {
    return name >= 0 && name < Rows ? place(table[name], api->entry.family, api->entry.minor) : -1;
}

/// The name whose number in this release is `number`, -1 for a number that the tables do not have.
template <int Rows>
int32_t name_of(const trtdl_api* api, const Place (&table)[Rows][FamilyCount], int32_t number) {
    for (int32_t i = 0; i < Rows; ++i)
        if (number >= 0 && value(api, table, i) == number) return i;
    return -1;
}

template <class Fn>
struct Slot;

template <class R, class... A>
struct Slot<R(void*, A...)> {
    using Result = R;
    /// A call of a virtual method is, in the Itanium ABI, a call of a function whose first argument is `this`.
    static R call(void* object, int32_t index, A... arguments) {
        void** vtable;
        std::memcpy(&vtable, object, sizeof vtable);
        return reinterpret_cast<R (*)(void*, A...)>(vtable[index])(object, arguments...);
    }
};

/// Calls method M on the object whose own vtable has it (parser, host memory's deletion).
template <class M, class... A>
typename Slot<typename M::Fn>::Result direct(const trtdl_api* api, void* object, A... arguments) {
    return Slot<typename M::Fn>::call(object, slot(api, M::index), arguments...);
}

/// Calls method M on the implementation that a public object points to at offset 8, behind its own vtable pointer.
template <class M, class... A>
typename Slot<typename M::Fn>::Result call(const trtdl_api* api, void* object, A... arguments) {
    void* implementation;
    std::memcpy(&implementation, static_cast<char*>(object) + 8, sizeof implementation);
    return Slot<typename M::Fn>::call(implementation, slot(api, M::index), arguments...);
}

/// Runs `body`; an exception becomes `otherwise`, for nothing may unwind into the caller's language.
template <class T, class Body>
T guard(T otherwise, Body body) noexcept {
    try {
        return body();
    } catch (...) {
        return otherwise;
    }
}

template <class Body>
trtdl_status guard_status(Body body) noexcept {
    return guard(TRTDL_EXCEPTION, body);
}

inline trtdl_status said(bool yes) { return yes ? TRTDL_OK : TRTDL_REFUSED; }

/// A setter without a result: unsupported where the release lacks it, else done.
template <class M, class... A>
trtdl_status set(const trtdl_api* api, void* object, A... arguments) noexcept {
    return guard_status([&]() -> trtdl_status {
        if (!has<M>(api)) return TRTDL_UNSUPPORTED;
        call<M>(api, object, arguments...);
        return TRTDL_OK;
    });
}

/// A setter that answers whether it worked.
template <class M, class... A>
trtdl_status set_checked(const trtdl_api* api, void* object, A... arguments) noexcept {
    return guard_status([&]() -> trtdl_status {
        return has<M>(api) ? said(call<M>(api, object, arguments...)) : TRTDL_UNSUPPORTED;
    });
}

/// A question with an answer `otherwise` where the release does not have it.
template <class M, class T, class... A>
T ask(T otherwise, const trtdl_api* api, void* object, A... arguments) noexcept {
    return guard(otherwise,
                 [&]() -> T { return has<M>(api) ? static_cast<T>(call<M>(api, object, arguments...)) : otherwise; });
}

template <class D>
trtdl_dims widen(const D& dims) {
    trtdl_dims out{};
    out.rank = dims.nbDims;
    for (int32_t i = 0; i < 8 && i < dims.nbDims; ++i) out.extent[i] = dims.d[i];
    return out;
}

template <class D>
D narrow(const trtdl_dims& dims) {
    D out{};
    out.nbDims = dims.rank;
    for (int32_t i = 0; i < 8 && i < dims.rank; ++i)
        out.d[i] = static_cast<typename std::remove_reference<decltype(out.d[0])>::type>(dims.extent[i]);
    return out;
}

/// Shapes that methods return: by M32 in 8.x, by M64 later.
template <class M32, class M64, class... A>
trtdl_dims dims_of(const trtdl_api* api, void* object, A... arguments) noexcept {
    trtdl_dims none{};
    none.rank = -1;
    return guard(none, [&]() -> trtdl_dims {
        if (has<M64>(api)) return widen(call<M64>(api, object, arguments...));
        return has<M32>(api) ? widen(call<M32>(api, object, arguments...)) : none;
    });
}

}  // namespace trtdl
