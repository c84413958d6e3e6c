// How the cpu target speaks: one exception type, and operations that know where they were called.
#pragma once

#include <kittens_base.cuh>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace kittens {

// A mistake in a tile program, found while it ran on the cpu target.
class error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace cpu {

template <typename Part> void append(std::string& out, const Part& part) {
    if constexpr (std::is_floating_point_v<Part>) {
        char digits[32];
        std::snprintf(digits, sizeof(digits), "%g", double(part));
        out += digits;
    } else if constexpr (std::is_enum_v<Part> || (std::is_integral_v<Part> && !std::is_same_v<Part, char>)) {
        out += std::to_string(+part);
    } else {
        out += part;
    }
}

// Without a stream, whose locale would be shared with another libstdc++ where the compiler has only a static one.
template <typename... Parts> std::string text(const Parts&... parts) {
    std::string out;
    (append(out, parts), ...);
    return out;
}

template <typename... Parts> [[noreturn]] void fail(const Parts&... parts) { throw error(text(parts...)); }

// An operation as reports name it: what, where in the source, by whom.
struct action {
    const char* op = "?";
    site at = {};
    int block = 0;
    int warp = 0;
    int rank = -1;  // of its GPU, where there are several
};

inline std::string place(const site& at) {
    const std::string path = at.where.file_name();
    const size_t slash = path.find_last_of('/');
    if (path.empty()) return "an unknown place";
    return text(slash == std::string::npos ? path : path.substr(slash + 1), ":", at.where.line());
}

inline bool same_place(const site& a, const site& b) {
    const char *first = a.where.file_name(), *second = b.where.file_name();
    return a.where.line() == b.where.line() && (first == second || std::strcmp(first, second) == 0);
}

inline bool same(const action& a, const action& b) {
    return a.rank == b.rank && a.block == b.block && a.warp == b.warp && a.op == b.op && same_place(a.at, b.at);
}

// "rank 1, ", where there are several.
inline std::string of_rank(int rank) { return rank < 0 ? "" : text("rank ", rank, ", "); }

inline std::string name(const action& a) {
    return text(a.op, " at ", place(a.at), " (", of_rank(a.rank), "block ", a.block, ", warp ", a.warp, ")");
}

inline std::string plural(int64_t count, const std::string& word) {
    if (count == 1) return text(count, " ", word);
    return text(count, " ", word.back() == 'y' ? word.substr(0, word.size() - 1) + "ies" : word + "s");
}

}  // namespace cpu
}  // namespace kittens
