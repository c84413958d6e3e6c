// cpu: macros, scalar types, call sites, tensor maps. For checking programs, not for speed: see docs/tile_library.md.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>

#if !defined(__x86_64__)
#error "kittens: the cpu target switches stacks with x86-64 instructions; build it on an x86-64 machine"
#endif

#define kittens_device inline
#define kittens_host_device inline
#define kittens_here std::source_location::current()  // as a default argument: the caller's place

namespace kittens {

// Where an operation was called: the file and line that reports name.
struct site {
    std::source_location where;
    constexpr site(std::source_location at = {}) : where(at) {}  // implicit: kittens_here becomes a site
};

// bfloat16: the upper half of a float.
struct bf16 {
    uint16_t bits;
};
using half = _Float16;

kittens_host_device float to_float(float x) { return x; }
kittens_host_device float to_float(half x) { return static_cast<float>(x); }
kittens_host_device float to_float(bf16 x) {
    const uint32_t wide = uint32_t(x.bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
}

// Rounds to nearest even; a NaN stays one.
template <typename T> kittens_host_device T from_float(float x);
template <> kittens_host_device float from_float<float>(float x) { return x; }
template <> kittens_host_device half from_float<half>(float x) { return static_cast<half>(x); }
template <> kittens_host_device bf16 from_float<bf16>(float x) {
    uint32_t wide;
    std::memcpy(&wide, &x, sizeof(wide));
    const uint32_t rounded = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
    const bool is_nan = (wide & 0x7fffffff) > 0x7f800000;
    return bf16{uint16_t(is_nan ? (wide >> 16 | 0x40) : rounded)};
}

namespace math {
kittens_device float exp2(float x) { return std::exp2(x); }
kittens_device float exp(float x) { return std::exp(x); }
kittens_device float log2(float x) { return std::log2(x); }
kittens_device float log(float x) { return std::log(x); }
kittens_device float log1p(float x) { return std::log1p(x); }
kittens_device float rsqrt(float x) { return 1.f / std::sqrt(x); }
kittens_device float sqrt(float x) { return std::sqrt(x); }
kittens_device float tanh(float x) { return std::tanh(x); }
kittens_device float abs(float x) { return std::fabs(x); }
kittens_device float max(float x, float y) { return std::fmax(x, y); }
kittens_device float min(float x, float y) { return std::fmin(x, y); }
}  // namespace math

// What a tensor map of this tile demands of a tensor, checked as the GPU's driver does; the cpu target keeps no map.
template <typename Tile> struct tensor_map {
    tensor_map(const void* base, const int (&extent)[4], const int64_t (&stride)[3], bool is_matrix) {
        using T = typename Tile::T;
        if constexpr (requires { Tile::rows; })
            static_assert(Tile::rows <= 256, "tensor map: a TMA box has at most 256 rows; load sub-tiles");
        else static_assert(Tile::length <= 256, "tensor map: a TMA box of a vector has at most 256 elements");
        bool accepted = reinterpret_cast<uintptr_t>(base) % 16 == 0;
        for (int dim = is_matrix ? 2 : 0; dim < 3; dim++)
            accepted = accepted && stride[dim] > 0 && stride[dim] * int64_t(sizeof(T)) % 16 == 0;
        for (int dim = is_matrix ? 2 : 0; dim < 4; dim++) accepted = accepted && extent[dim] > 0;
        if (!accepted)
            throw std::invalid_argument(
                "tensor map: the base must be 16-byte aligned, every stride a multiple of 16 bytes and every extent "
                "positive");
    }
};

}  // namespace kittens

#include "kittens/target/cpu/runtime/identity.cuh"
