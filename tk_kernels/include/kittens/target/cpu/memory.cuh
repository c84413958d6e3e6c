// cpu: synchronous moves between registers, shared and global memory, at warp and warpgroup scope.
#pragma once

#include "kittens/target/cpu/registers.cuh"
#include "kittens/types/global.cuh"

namespace kittens {

// Bytes to an element of a shared tile, as it lies there.
template <shared_tile Tile> kittens_device uint32_t shared_offset(int row, int col) { return Tile::offset(row, col); }

namespace cpu {

// The bytes of a whole tile.
template <shared_tile Tile> runs whole(const Tile&) {
    if constexpr (Tile::parent_rows == Tile::rows) return {size_t(Tile::bytes)};
    else return {size_t(Tile::rows * Tile::chunk_bytes), size_t(Tile::chunks), size_t(Tile::chunk_stride)};
}
template <shared_vec Vec> runs whole(const Vec&) { return {size_t(Vec::bytes)}; }

// A vector is a row; boxes: as the copy engine moves it, one a chunk.
template <typename X> constexpr int rows_of() {
    if constexpr (is_sv<X>) return 1;
    else return X::rows;
}
template <typename X> constexpr int cols_of() {
    if constexpr (is_sv<X>) return X::length;
    else return X::cols;
}
template <typename X> constexpr int boxes() {
    if constexpr (is_sv<X>) return 1;
    else return X::chunks;
}

// The bytes of the rows that this warp moves.
template <typename RowMap, shared_tile Tile>
void access_rows(warp& w, const action& who, const Tile& tile, bool write) {
    if constexpr (RowMap::share == 1) {
        access_shared(w, who, tile.data, write, whole(tile));
    } else {
        const auto* bytes = reinterpret_cast<const unsigned char*>(tile.data);
        for (int i = 0; i < Tile::rows / 64; i++)
            access_shared(w, who, bytes + RowMap::base(i) * Tile::chunk_bytes, write,
                          {size_t(16 * Tile::chunk_bytes), size_t(Tile::chunks), size_t(Tile::chunk_stride)});
    }
}

template <global_tensor Gl> void check_global(const Gl& global, element_coord at, const action& who,
                                              bool is_vector = false) {
    if (at.r < 0 || at.c < 0 || at.b < 0 || at.d < 0)
        fail(name(who), " has a negative coordinate (batch ", at.b, ", depth ", at.d, ", row ", at.r, ", column ", at.c,
             "): tiles start inside the tensor");
    if (is_vector && at.r >= global.rows())
        fail(name(who), " addresses row ", at.r, " of a tensor with ", plural(global.rows(), "row"));
    if (at.b >= global.batch() || at.d >= global.depth())
        fail(name(who), " addresses matrix (", at.b, ", ", at.d, ") of a tensor with ", global.batch(), " x ",
             global.depth(), " matrices");
}

// A load of rows x cols elements, of those that lie in the tensor.
template <global_tensor Gl> void note_read(const warp& w, const Gl& global, element_coord at, int rows, int cols,
                                           const action& who) {
    constexpr size_t element = sizeof(typename Gl::T);
    const int inner_rows = std::clamp(global.rows() - at.r, 0, rows),
              inner_cols = std::clamp(global.cols() - at.c, 0, cols);
    if (inner_rows == 0 || inner_cols == 0) return;
    const region from{reinterpret_cast<uintptr_t>(global.row(at.b, at.d, at.r) + at.c), inner_rows,
                      size_t(inner_cols) * element, global.stride[2] * int64_t(element)};
    w.machine->note_read(w, from, who, is_exchanged<Gl>);
}
template <typename T, global_tensor Gl> T element_or_zero(const Gl& global, element_coord at) {
    const bool inside = at.r < global.rows() && at.c < global.cols();
    return from_float<T>(inside ? to_float(global.row(at.b, at.d, at.r)[at.c]) : 0.f);
}
template <register_vec Dst, global_tensor Src>
void read_row(warp& w, const action& who, Dst& dst, const Src& src, element_coord at) {
    note_read(w, src, at, 1, Dst::length, who);
    for (int i = 0; i < Dst::length; i++, at.c++) dst.data[i] = element_or_zero<typename Dst::T>(src, at);
}
template <global_tensor Gl> void check_column(const Gl& global, int col, const action& who) {
    if (col >= global.cols())
        fail(name(who), " addresses column ", col, " of a tensor with ", plural(global.cols(), "column"));
}

}  // namespace cpu

template <typename RowMap, register_tile Dst, shared_tile Src>
kittens_device void load_tile(Dst& dst, const Src& src, site where) {
    static_assert(Src::rows == Dst::rows * RowMap::share && Src::cols == Dst::cols,
                  "load: the shared tile must have the register tile's shape (4x its rows at warpgroup scope)");
    const auto [w, who] = cpu::begin("load", where);
    dst.touch(true, "load", &where);
    cpu::access_rows<RowMap>(w, who, src, false);
    for (int row = 0; row < Dst::rows; row++)
        for (int col = 0; col < Dst::cols; col++)
            dst.data[row][col] =
                from_float<typename Dst::T>(to_float(element(src, RowMap::base(row / 16) + row % 16, col)));
}

template <typename RowMap, shared_tile Dst, register_tile Src>
kittens_device void store_tile(Dst& dst, const Src& src, site where) {
    static_assert(Dst::rows == Src::rows * RowMap::share && Dst::cols == Src::cols,
                  "store: the shared tile must have the register tile's shape (4x its rows at warpgroup scope)");
    const auto [w, who] = cpu::begin("store", where);
    src.touch(false, "store", &where);
    cpu::access_rows<RowMap>(w, who, dst, true);
    for (int row = 0; row < Src::rows; row++)
        for (int col = 0; col < Src::cols; col++)
            element(dst, RowMap::base(row / 16) + row % 16, col) =
                from_float<typename Dst::T>(to_float(src.data[row][col]));
}

// Elements past the tensor's end load as zero and are not stored.
template <typename RowMap, register_tile Dst, global_tensor Src>
kittens_device void load_tile(Dst& dst, const Src& src, element_coord at, site where) {
    const auto [w, who] = cpu::begin("load", where);
    dst.touch(true, "load", &where);
    cpu::check_global(src, at, who);
    for (int i = 0; i < Dst::rows; i += 16) {
        const element_coord part{at.b, at.d, at.r + RowMap::base(i / 16), at.c};
        cpu::note_read(w, src, part, 16, Dst::cols, who);
    }
    for (int i = 0; i < Dst::rows; i++)
        for (int j = 0; j < Dst::cols; j++)
            dst.data[i][j] = cpu::element_or_zero<typename Dst::T>(
                src, {at.b, at.d, at.r + RowMap::base(i / 16) + i % 16, at.c + j});
}
template <typename RowMap, global_tensor Dst, register_tile Src>
kittens_device void store_tile(const Dst& dst, const Src& src, element_coord at, site where) {
    const auto [w, who] = cpu::begin("store", where);
    src.touch(false, "store", &where);
    cpu::check_global(dst, at, who);
    const int cols = std::clamp(dst.cols() - at.c, 0, Src::cols);
    for (int i = 0; i < Src::rows; i++) {
        const int row = at.r + RowMap::base(i / 16) + i % 16;
        if (row >= dst.rows() || cols == 0) continue;
        auto* to = dst.row(at.b, at.d, row) + at.c;
        w.machine->note_write(to, cols * sizeof(*to), who, is_exchanged<Dst>);
        for (int j = 0; j < cols; j++) to[j] = from_float<typename Dst::T>(to_float(src.data[i][j]));
    }
}

// --- warp scope -----------------------------------------------------------------------------------------------
// Packed tiles: fp32 in the order of the registers, which is row by row here, warp after warp, and by lanes on the GPU.
namespace cpu {
template <typename RowMap, register_tile Tile, global_tensor Gl>
auto* packed_in(const Gl& global, coord at, const action& who) {
    constexpr int own = Tile::rows * Tile::cols, elements = RowMap::share * own;
    check_global(global, element_coord{at.b, at.d, at.r, at.c}, who, true);
    if ((at.c + 1) * elements > global.cols())
        fail(name(who), " reaches column ", (at.c + 1) * elements, " of a tensor with ",
             plural(global.cols(), "column"), ": packed tiles lie wholly in a row");
    auto* tile = packed_tile<Tile, RowMap::share>(global, at);
    if (reinterpret_cast<uintptr_t>(tile) % 16 != 0)
        fail(name(who), " moves four elements at a time: packed tiles begin at multiples of 16 bytes");
    return tile + RowMap::base(0) / 16 * own;
}
}  // namespace cpu
template <typename RowMap, register_tile Dst, global_tensor Src>
void load_packed_tile(Dst& dst, const Src& src, coord at, site where) {
    const auto [w, who] = cpu::begin("load_packed", where);
    dst.touch(true, "load_packed", &where);
    const auto* from = cpu::packed_in<RowMap, Dst>(src, at, who);
    w.machine->note_read(w, cpu::region_of(from, Dst::rows * Dst::cols * sizeof(float)), who, is_exchanged<Src>);
    for (int i = 0; i < Dst::rows; i++)
        for (int j = 0; j < Dst::cols; j++) dst.data[i][j] = from[i * Dst::cols + j];
}
template <typename RowMap, global_tensor Dst, register_tile Src>
void store_packed_tile(const Dst& dst, const Src& src, coord at, site where, bool add = false) {
    const char* const op = add ? "add_packed" : "store_packed";
    const auto [w, who] = cpu::begin(op, where);
    src.touch(false, op, &where);
    auto* to = cpu::packed_in<RowMap, Src>(dst, at, who);
    w.machine->note_write(to, Src::rows * Src::cols * sizeof(float), who, is_exchanged<Dst>, add);
    for (int i = 0; i < Src::rows; i++)
        for (int j = 0; j < Src::cols; j++) {
            if (add) cpu::add_element(to + i * Src::cols + j, src.data[i][j]);
            else to[i * Src::cols + j] = src.data[i][j];
        }
}
// Added to what is there, each element atomically.
template <global_tensor Dst, register_tile Src>
kittens_device void add_packed(const Dst& dst, const Src& src, coord at, site where = kittens_here) {
    store_packed_tile<warp_rows>(dst, src, at, where, true);
}
template <shared_vec Dst, register_tile Src>
kittens_device void store_packed(Dst& dst, const Src& src, site where = kittens_here) {
    static_assert(Dst::length == Src::rows * Src::cols && sizeof(typename Dst::T) == 4 && sizeof(typename Src::T) == 4,
                  "store_packed: an fp32 vector with as many elements as the tile");
    const auto [w, who] = cpu::begin("store_packed", where);
    src.touch(false, "store_packed", &where);
    cpu::access_shared(w, who, dst.data, true, cpu::whole(dst));
    for (int i = 0; i < Src::rows; i++)
        for (int j = 0; j < Src::cols; j++) dst.data[i * Src::cols + j] = src.data[i][j];
}

template <register_vec Dst, shared_vec Src>
kittens_device void load(Dst& dst, const Src& src, site where = kittens_here) {
    static_assert(Dst::length == Src::length, "load: vectors of one length");
    const auto [w, who] = cpu::begin("load", where);
    cpu::access_shared(w, who, src.data, false, cpu::whole(src));
    for (int i = 0; i < Dst::length; i++) dst.data[i] = from_float<typename Dst::T>(to_float(src.data[i]));
}
template <shared_vec Dst, register_vec Src>
kittens_device void store(Dst& dst, const Src& src, site where = kittens_here) {
    static_assert(Dst::length == Src::length, "store: vectors of one length");
    const auto [w, who] = cpu::begin("store", where);
    cpu::access_shared(w, who, dst.data, true, cpu::whole(dst));
    for (int i = 0; i < Src::length; i++) dst.data[i] = from_float<typename Dst::T>(to_float(src.data[i]));
}
template <register_vec Dst, global_tensor Src>
kittens_device void load_vec(Dst& dst, const Src& src, element_coord at, site where) {
    const auto [w, who] = cpu::begin("load", where);
    cpu::check_global(src, at, who, true);
    cpu::read_row(w, who, dst, src, at);
}
// Of a tensor whose rows begin at multiples of 4 bytes, from an even column on; on a GPU two elements at a time, of
// which the second may lie behind a row's last one. Columns past the tensor's end load as zero, rows as its last one.
namespace cpu {
template <global_tensor Gl> void check_pairs(const Gl& global, element_coord at, const action& who) {
    static_assert(sizeof(typename Gl::T) == 2, "load_pairs: 16-bit elements");
    check_global(global, at, who, true);
    for (int row : {at.r, at.r + 1})
        if (reinterpret_cast<uintptr_t>(global.row(at.b, at.d, row) + at.c) % 4 != 0 &&
            (row == at.r || global.rows() > 1))
            fail(name(who), " moves two elements at a time: rows begin at multiples of 4 bytes, columns are even");
}
}  // namespace cpu
template <register_tile Dst, global_tensor Src>
kittens_device void load_pairs(Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    static_assert(std::is_same_v<typename Dst::T, std::remove_const_t<typename Src::T>> && Dst::order == layout::row,
                  "load_pairs: elements of one type, in row layout");
    const auto [w, who] = cpu::begin("load_pairs", where);
    dst.touch(true, "load_pairs", &where);
    cpu::check_pairs(src, at, who);
    cpu::note_read(w, src, at, Dst::rows, Dst::cols, who);
    for (int i = 0; i < Dst::rows; i++)
        for (int j = 0; j < Dst::cols; j++)
            dst.data[i][j] = at.c + j < src.cols() ? src.row(at.b, at.d, std::min(at.r + i, src.rows() - 1))[at.c + j]
                                                   : from_float<typename Dst::T>(0.f);
}
template <register_vec Dst, global_tensor Src>
kittens_device void load_pairs(Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    static_assert(Dst::spread == vec_layout::align, "load_pairs: the row_vec of a tile in row layout");
    const auto [w, who] = cpu::begin("load_pairs", where);
    cpu::check_pairs(src, at, who);
    cpu::read_row(w, who, dst, src, at);
}
// dst[i] = element (at.r + i, at.c): a column; rows past the tensor's end load as zero.
template <register_vec Dst, global_tensor Src>
kittens_device void load_column(Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    const auto [w, who] = cpu::begin("load_column", where);
    cpu::check_global(src, at, who);
    cpu::check_column(src, at.c, who);
    cpu::note_read(w, src, at, Dst::length, 1, who);
    for (int i = 0; i < Dst::length; i++, at.r++) dst.data[i] = cpu::element_or_zero<typename Dst::T>(src, at);
}
// One element, which lies inside the tensor; the same in every lane.
template <global_tensor Src>
kittens_device float load_value(const Src& src, element_coord at, site where = kittens_here) {
    const auto [w, who] = cpu::begin("load_value", where);
    cpu::check_global(src, at, who, true);
    cpu::check_column(src, at.c, who);
    cpu::note_read(w, src, at, 1, 1, who);
    return to_float(src.row(at.b, at.d, at.r)[at.c]);
}
// One element of a table: a page's number, a length. It lies inside the tensor; the same in every lane.
template <global_tensor Src>
kittens_device int load_integer(const Src& src, element_coord at, site where = kittens_here) {
    static_assert(std::is_same_v<std::remove_const_t<typename Src::T>, int>, "load_integer: a tensor of int");
    const auto [w, who] = cpu::begin("load_integer", where);
    cpu::check_global(src, at, who, true);
    cpu::check_column(src, at.c, who);
    cpu::note_read(w, src, at, 1, 1, who);
    return src.row(at.b, at.d, at.r)[at.c];
}
// Rows that lie anywhere: row i of the tile is row `row_of(i)` of a matrix of as many columns, whose rows begin at
// multiples of 4 bytes. Where that is negative, zeros are read and nothing is written.
namespace cpu {
template <global_tensor Gl> void check_row(const Gl& global, int row, int cols, const action& who) {
    static_assert(sizeof(typename Gl::T) == 2, "16-bit elements");
    check_global(global, element_coord{0, 0, row, 0}, who, true);
    if (cols != global.cols())
        fail(name(who), " moves rows of ", plural(cols, "column"), " of a tensor with ", global.cols());
    if (reinterpret_cast<uintptr_t>(global.row(0, 0, row)) % 4 != 0)
        fail(name(who), " moves two elements at a time: rows begin at multiples of 4 bytes");
}
}  // namespace cpu
template <register_tile Dst, global_tensor Src, typename RowOf>
kittens_device void load_rows(Dst& dst, const Src& src, RowOf row_of, site where = kittens_here) {
    static_assert(std::is_same_v<typename Dst::T, std::remove_const_t<typename Src::T>> && Dst::order == layout::row,
                  "load_rows: elements of one type, in row layout");
    const auto [w, who] = cpu::begin("load_rows", where);
    dst.touch(true, "load_rows", &where);
    for (int i = 0; i < Dst::rows; i++) {
        const int row = row_of(i);
        if (row >= 0) cpu::check_row(src, row, Dst::cols, who);
        if (row >= 0) cpu::note_read(w, src, element_coord{0, 0, row, 0}, 1, Dst::cols, who);
        for (int j = 0; j < Dst::cols; j++)
            dst.data[i][j] = row >= 0 ? src.row(0, 0, row)[j] : from_float<typename Dst::T>(0.f);
    }
}
template <global_tensor Dst, register_tile Src, typename RowOf>
kittens_device void store_rows(const Dst& dst, const Src& src, RowOf row_of, site where = kittens_here) {
    static_assert(Src::order == layout::row, "store_rows: from row layout");
    const auto [w, who] = cpu::begin("store_rows", where);
    src.touch(false, "store_rows", &where);
    for (int i = 0; i < Src::rows; i++) {
        const int row = row_of(i);
        if (row < 0) continue;
        cpu::check_row(dst, row, Src::cols, who);
        auto* to = dst.row(0, 0, row);
        w.machine->note_write(to, Src::cols * sizeof(*to), who, is_exchanged<Dst>);
        for (int j = 0; j < Src::cols; j++) to[j] = from_float<typename Dst::T>(to_float(src.data[i][j]));
    }
}
// So many rows of a tile, from row `first` on, and shared vectors as long as its rows. The other rows load as zeros,
// and are not stored.
template <register_tile Dst, shared_vec Src>
kittens_device void load_rows(Dst& dst, const Src* rows, int count, int first = 0, site where = kittens_here) {
    static_assert(sizeof(typename Dst::T) == 2 && std::is_same_v<typename Dst::T, typename Src::T> &&
                      Dst::order == layout::row && Dst::cols == Src::length,
                  "load_rows: 16-bit elements of one type, vectors as long as the tile's rows");
    const auto [w, who] = cpu::begin("load_rows", where);
    dst.touch(true, "load_rows", &where);
    for (int i = 0; i < Dst::rows; i++) {
        const bool given = i >= first && i < first + count;
        if (given) cpu::access_shared(w, who, rows[i - first].data, false, cpu::whole(rows[i - first]));
        for (int j = 0; j < Dst::cols; j++)
            dst.data[i][j] = given ? rows[i - first].data[j] : from_float<typename Dst::T>(0.f);
    }
}
template <shared_vec Dst, register_tile Src>
kittens_device void store_rows(Dst* rows, const Src& src, int count, int first = 0, site where = kittens_here) {
    static_assert(std::is_same_v<typename Dst::T, float> && std::is_same_v<typename Src::T, float> &&
                      Src::order == layout::row && Src::cols == Dst::length,
                  "store_rows: fp32, vectors as long as the tile's rows");
    const auto [w, who] = cpu::begin("store_rows", where);
    src.touch(false, "store_rows", &where);
    for (int i = 0; i < count; i++) {
        cpu::access_shared(w, who, rows[i].data, true, cpu::whole(rows[i]));
        for (int j = 0; j < Src::cols; j++) rows[i].data[j] = src.data[first + i][j];
    }
}
// As `store`, where all columns lie inside the tensor; on a GPU two elements at a time.
template <global_tensor Dst, register_tile Src>
kittens_device void store_pairs(const Dst& dst, const Src& src, element_coord at, site where = kittens_here) {
    static_assert(
        std::is_same_v<typename Dst::T, float> && std::is_same_v<typename Src::T, float> && Src::order == layout::row,
        "store_pairs: fp32, from row layout");
    const auto [w, who] = cpu::begin("store_pairs", where);
    if (at.c + Src::cols > dst.cols())
        cpu::fail(name(who), " stores columns to ", at.c + Src::cols, " of a tensor with ", dst.cols());
    if (reinterpret_cast<uintptr_t>(dst.row(at.b, at.d, at.r) + at.c) % 8 != 0 || dst.stride[2] % 2 != 0)
        cpu::fail(name(who), " stores two elements at a time: rows begin at multiples of 8 bytes");
    store(dst, src, at, where);
}
// Element i of the vector goes to element `at(i)` of a tensor's first row, or nowhere where that is negative.
template <global_tensor Dst, register_vec Src, typename At>
kittens_device void store_elements(const Dst& dst, const Src& src, At at, site where = kittens_here) {
    const auto [w, who] = cpu::begin("store_elements", where);
    for (int i = 0; i < Src::length; i++) {
        const int to = at(i);
        if (to < 0) continue;
        cpu::check_column(dst, to, who);
        auto* place = dst.row(0, 0, 0) + to;
        w.machine->note_write(place, sizeof(*place), who, is_exchanged<Dst>);
        *place = from_float<typename Dst::T>(to_float(src.data[i]));
    }
}
// A row of a table of int whose entries are asked for one by one, in any order; on a GPU 32 are read at a time.
template <global_tensor Src> struct integer_row {
    const Src* table;
    int row;

    kittens_device integer_row(const Src& src, int row_, site = kittens_here) : table(&src), row(row_) {}
    // On a GPU: starts to read entry i and the 31 behind it, and does not wait.
    kittens_device void bring(int, site = kittens_here) {}
    kittens_device int at(int i, site where = kittens_here) {
        return load_integer(*table, element_coord{0, 0, row, i}, where);
    }
    kittens_device int brought(int i, site where = kittens_here) { return at(i, where); }
};
// On a GPU: asks for a tile, or a row's (a column's) next Length elements, to be brought into the L2 cache.
template <int Rows, int Cols, global_tensor Src> kittens_device void prefetch_tile(const Src&, element_coord) {}
template <int Length, global_tensor Src> kittens_device void prefetch_row(const Src&, element_coord) {}
template <int Length, global_tensor Src> kittens_device void prefetch_column(const Src&, element_coord) {}
template <global_tensor Dst, register_vec Src>
kittens_device void store_vec(const Dst& dst, const Src& src, element_coord at, site where) {
    const auto [w, who] = cpu::begin("store", where);
    cpu::check_global(dst, at, who, true);
    const int count = std::clamp(dst.cols() - at.c, 0, Src::length);
    auto* to = dst.row(at.b, at.d, at.r) + at.c;
    w.machine->note_write(to, count * sizeof(*to), who, is_exchanged<Dst>);
    for (int i = 0; i < count; i++) to[i] = from_float<typename Dst::T>(to_float(src.data[i]));
}

}  // namespace kittens

#include "kittens/target/cpu/copies.cuh"

namespace kittens {

// --- groups of warps ------------------------------------------------------------------------------------------
// Each warp moves its share: 32 of every 32 * Warps units of 16 bytes, as a GPU's threads do.
template <int Warps> struct group {
    static constexpr int threads = Warps * warp_threads;

    template <typename Dst, global_tensor Src, coordinate At>
    kittens_device static void load(Dst& dst, const Src& src, At place, site where = kittens_here) {
        const element_coord at = corner<Dst>(place);
        const auto [w, who] = cpu::begin("load", where);
        cpu::check_global(src, at, who, is_sv<Dst>);
        cpu::note_read(w, src, at, cpu::rows_of<Dst>(), cpu::cols_of<Dst>(), who);
        share(w, who, dst, true, [&](int row, int col, auto& x) {
            x = cpu::element_or_zero<typename Dst::T>(src, {at.b, at.d, at.r + row, at.c + col});
        });
    }
    template <global_tensor Dst, typename Src, coordinate At>
    kittens_device static void store(const Dst& dst, const Src& src, At place, site where = kittens_here) {
        const element_coord at = corner<Src>(place);
        const auto [w, who] = cpu::begin("store", where);
        cpu::check_global(dst, at, who, is_sv<Src>);
        share(w, who, src, false, [&](int row, int col, const auto& x) {
            if (at.r + row >= dst.rows() || at.c + col >= dst.cols()) return;
            auto& to = dst.row(at.b, at.d, at.r + row)[at.c + col];
            w.machine->note_write(&to, sizeof(to), who, is_exchanged<Dst>);
            to = from_float<typename Dst::T>(to_float(x));
        });
    }
    // Starts a copy, in units of 16 bytes, each thread its share. For the warp that calls it, it is done after
    // copy_commit and copy_wait. Elements past the tensor's end are zero. A gl that names the tile was checked for
    // whole units.
    template <typename Dst, global_tensor Src, coordinate At>
    kittens_device static void copy_async(Dst& dst, const Src& src, At place, site where = kittens_here) {
        static_assert(std::is_same_v<typename Dst::T, std::remove_const_t<typename Src::T>>,
                      "asynchronous copies do not convert: the tile and the tensor need one element type");
        static_assert(Src::template has_map<Dst>, "copy_async: name the tile or vector in the gl's type list");
        static_assert(is_sv<Dst> || threads % (cpu::cols_of<Dst>() * int(sizeof(typename Dst::T)) / 16) == 0,
                      "copy_async: the group's threads take whole rows");
        const element_coord at = corner<Dst>(place);
        cpu::warp& w = cpu::begin();
        const cpu::action who = cpu::begin_copy(w, src, at, where);
        each_unit(w, dst, [&](int row, int col, int cols, auto& to) {
            cpu::copy_row(w, who, src, {at.b, at.d, at.r + row, at.c + col}, cols, &to);
        });
    }

  private:
    // f(row, first column, columns, first element) for the runs of neighbouring units that this warp's lanes move,
    // within a chunk.
    template <typename Tile, typename F> static void each_unit(const cpu::warp& w, Tile& tile, F f) {
        using X = std::remove_const_t<Tile>;
        constexpr int unit = 16 / int(sizeof(typename X::T)), cols = cpu::cols_of<X>(), row_units = cols / unit;
        constexpr int chunk_cols = cpu::cols_of<X>() / cpu::boxes<X>(), all = cpu::rows_of<X>() * row_units;
        for (int first = w.index % Warps * warp_threads; first < all; first += threads)
            for (int k = first, end = std::min(first + warp_threads, all); k < end;) {
                const int row = k / row_units, col = k % row_units * unit;
                const int run = std::min({(end - k) * unit, cols - col, chunk_cols - col % chunk_cols});
                if constexpr (is_sv<X>) f(row, col, run, tile.data[col]);
                else f(row, col, run, element(tile, row, col));
                k += run / unit;
            }
    }
    template <typename Tile, typename F>
    static void share(cpu::warp& w, const cpu::action& who, Tile& tile, bool write, F f) {
        each_unit(w, tile, [&](int row, int col, int cols, auto& from) {
            cpu::access_shared(w, who, &from, write, {cols * sizeof(from)});
            for (int i = 0; i < cols; i++) f(row, col + i, (&from)[i]);
        });
    }
};

namespace warpgroup {

// A tile of 64 rows of which each warp takes 8 of the upper half, as its upper 8 rows, and 8 of the lower.
template <typename T, int C, shared_tile Tile>
void access_halves(const char* op, const rt<T, 16, C>& part, const Tile& tile, bool store, site where) {
    static_assert(sizeof(typename Tile::T) == 2 && Tile::rows == 64 && Tile::cols == C,
                  "halves: 16-bit elements of one type, a shared tile of 64 rows and as many columns");
    const auto [w, who] = cpu::begin(op, where);
    part.touch(!store, op, &where);
    const auto* bytes = reinterpret_cast<const unsigned char*>(tile.data);
    for (int half = 0; half < 2; half++)
        cpu::access_shared(w, who, bytes + (32 * half + 8 * warp_in_group()) * Tile::chunk_bytes, store,
                           {size_t(8 * Tile::chunk_bytes), size_t(Tile::chunks), size_t(Tile::chunk_stride)});
}
template <typename T, int C, shared_tile Src>
kittens_device void load_halves(rt<T, 16, C>& dst, const Src& src, site where = kittens_here) {
    static_assert(std::is_same_v<T, typename Src::T>, "load_halves: elements of one type");
    access_halves("load_halves", dst, src, false, where);
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < C; col++)
            dst.data[row][col] = element(src, row / 8 * 32 + 8 * warp_in_group() + row % 8, col);
}
template <shared_tile Dst, typename T, int C>
kittens_device void store_halves(Dst& dst, const rt<T, 16, C>& src, site where = kittens_here) {
    access_halves("store_halves", src, dst, true, where);
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < C; col++)
            element(dst, row / 8 * 32 + 8 * warp_in_group() + row % 8, col) =
                from_float<typename Dst::T>(to_float(src.data[row][col]));
}
// A col_vec of a warpgroup's tile: of every 64 values each warp holds 16.
template <shared_vec Dst, register_vec Src>
kittens_device void store(Dst& dst, const Src& src, site where = kittens_here) {
    static_assert(Dst::length == 4 * Src::length,
                  "store: the shared vector has four times the register vector's length");
    const auto [w, who] = cpu::begin("store", where);
    for (int i = 0; i < Src::length / 16; i++)
        cpu::access_shared(w, who, dst.data + warpgroup_rows::base(i), true, {16 * sizeof(typename Dst::T)});
    for (int i = 0; i < Src::length; i++)
        dst.data[warpgroup_rows::base(i / 16) + i % 16] = from_float<typename Dst::T>(to_float(src.data[i]));
}
// Of every 64 values of src each warp takes 16: those of its rows.
template <register_vec Dst, shared_vec Src>
kittens_device void load(Dst& dst, const Src& src, site where = kittens_here) {
    static_assert(Src::length == 4 * Dst::length, "load: at warpgroup scope a warp holds a quarter of the vector");
    const auto [w, who] = cpu::begin("load", where);
    cpu::access_shared(w, who, src.data + warpgroup_rows::base(0), false,
                       {16 * sizeof(typename Src::T), size_t(Dst::length / 16), 64 * sizeof(typename Src::T)});
    for (int i = 0; i < Dst::length; i++)
        dst.data[i] = from_float<typename Dst::T>(to_float(src.data[warpgroup_rows::base(i / 16) + i % 16]));
}
// dst = src transposed: of every 64 columns of src each warp takes 16, as rows.
template <typename T, int R, int C, shared_tile Src>
kittens_device void load_transposed(rt<T, R, C>& dst, const Src& src, site where = kittens_here) {
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename Src::T>, "load_transposed: 16-bit elements of one type");
    static_assert(Src::cols == 4 * R && Src::rows == C,
                  "load_transposed: the register tile has a quarter of the shared tile's columns, as rows");
    const auto [w, who] = cpu::begin("load_transposed", where);
    dst.touch(true, "load_transposed", &where);
    for (int i = 0; i < R / 16; i++)
        cpu::access_shared(w, who, &element(src, 0, warpgroup_rows::base(i)), false,
                           {16 * sizeof(T), size_t(Src::rows), size_t(Src::chunk_bytes)});
    for (int row = 0; row < R; row++)
        for (int col = 0; col < C; col++)
            dst.data[row][col] = element(src, col, warpgroup_rows::base(row / 16) + row % 16);
}

}  // namespace warpgroup
}  // namespace kittens
