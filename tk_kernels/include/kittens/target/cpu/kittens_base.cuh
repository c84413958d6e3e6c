// cpu: macros, scalar types, call sites, tensor maps. For checking programs, not for speed: see docs/tile_library.md.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kittens/target/cpu/limits.cuh"

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
// 8 bits: 4 of exponent, 3 of mantissa; no infinity, 448 is the largest.
struct e4m3 {
    uint8_t bits;
};

kittens_host_device float to_float(float x) { return x; }
kittens_host_device float to_float(half x) { return static_cast<float>(x); }
kittens_host_device float to_float(bf16 x) {
    const uint32_t wide = uint32_t(x.bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
}

kittens_host_device float to_float(e4m3 x) {
    static const auto values = [] {
        std::array<float, 256> all;
        for (int bits = 0; bits < 256; bits++) {
            const int exponent = bits >> 3 & 15, mantissa = bits & 7;
            const float size = exponent == 0       ? std::ldexp(float(mantissa), -9)
                               : bits % 128 == 127 ? std::nanf("")
                                                   : std::ldexp(float(8 + mantissa), exponent - 10);
            all[bits] = bits < 128 ? size : -size;
        }
        return all;
    }();
    return values[x.bits];
}

// Rounds to nearest even; e4m3 saturates at its largest value, and a NaN stays one.
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

template <> kittens_host_device e4m3 from_float<e4m3>(float x) {
    const uint8_t sign = std::signbit(x) ? 128 : 0;
    if (std::isnan(x)) return e4m3{127};
    if (x == 0.f) return e4m3{sign};
    if (std::fabs(x) >= 448.f) return e4m3{uint8_t(sign + 126)};
    int exponent;
    std::frexp(x, &exponent);                     // |x| in [2^(exponent - 1), 2^exponent)
    const int step = std::max(exponent, -5) - 4;  // of the last place: 2^-9 for subnormal values
    const int places = int(std::nearbyint(std::ldexp(std::fabs(x), -step)));  // 8 .. 16, less for subnormal values
    return e4m3{uint8_t(sign + (step + 9) * 8 + places)};  // a place more than 15 carries into the exponent
}

namespace math {
kittens_device float exp2(float x) { return std::exp2(x); }
kittens_device float exp(float x) { return std::exp(x); }
kittens_device float log2(float x) { return std::log2(x); }
kittens_device float log(float x) { return std::log(x); }
kittens_device float log1p(float x) { return std::log1p(x); }
kittens_device float rsqrt(float x) { return 1.f / std::sqrt(x); }
kittens_device float sqrt(float x) { return std::sqrt(x); }
kittens_device float reciprocal(float x) { return 1.f / x; }
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
        const auto refuse = [&](const std::string& what) {
            std::string shape;
            for (const int size : extent) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
            throw std::invalid_argument("tensor map of a tensor of (" + shape + "): " + what);
        };
        const char* const dims[] = {"batch", "depth", "row"};
        if (const auto over = reinterpret_cast<uintptr_t>(base) % 16; over != 0)
            refuse("got a base " + std::to_string(over) + " bytes past a multiple of 16, needs one at a multiple");
        for (int dim = is_matrix ? 2 : 0; dim < 4; dim++)
            if (extent[dim] <= 0)
                refuse("got an extent of " + std::to_string(extent[dim]) + ", needs every one to be positive");
        for (int dim = is_matrix ? 2 : 0; dim < 3; dim++)
            if (const int64_t bytes = stride[dim] * int64_t(sizeof(T)); bytes <= 0 || bytes % 16 != 0)
                refuse(std::string("got a ") + dims[dim] + " stride of " + std::to_string(bytes) +
                       " bytes, needs a positive multiple of 16");
    }
};

}  // namespace kittens

#include "kittens/target/cpu/runtime/identity.cuh"
