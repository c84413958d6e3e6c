"""PTX as C++ that machine.h runs: each instruction becomes a loop over the lanes that have come to it.

It knows the instructions that the kernels for `sm_80` compile to, and refuses any other by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)\s*(?:\.\w+ [^\n]*\n)*\{\n(.*?)\n\}\n", re.DOTALL)
CLASSES = {"pred": "p", "16": "h", "32": "r", "64": "d"}
WIDTHS = {"p": 1, "h": 16, "r": 32, "d": 64}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neu": "!="}
INFIX = {"add": "+", "sub": "-", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^"}
OF_REALS = {
    "abs": "std::fabs", "neg": "-", "ex2": "std::exp2", "lg2": "std::log2", "rcp": "1.f / ",
    "rsqrt": "1.f / std::sqrt", "sqrt": "std::sqrt", "tanh": "std::tanh",
}  # fmt: skip
SHUFFLES = {"idx": "by_index", "bfly": "by_xor", "up": "from_below", "down": "from_above"}
REDUCTIONS = {("max", "s32"): ("INT32_MIN", "std::max(x, {})"), ("or", "b32"): ("0", "x | {}")}
SPECIAL = {"%tid.x": "w.thread(l)", "%ctaid.x": "uint32_t(w.of->index)", "%nctaid.x": "uint32_t(w.of->count)",
           "%laneid": "uint32_t(l)", "%globaltimer": "uint64_t(0)"}  # fmt: skip
NOTHING = ("membar", "fence", "prefetch")


class UnknownInstructionError(Exception):
    """An instruction that the kernels did not use when this was written."""


def entries(text: str) -> list[Entry]:
    """The kernels of a PTX file."""
    found = []
    for name, parameters, body in ENTRY.findall(text):
        entry = Entry(name, tuple(re.findall(r"(\w+)(?:\[\d+\])?\s*(?:,|$)", parameters)))
        entry.read(body)
        found.append(entry)
    return found


def statements(body: str) -> Iterator[tuple[str, str]]:
    """What a body says, in order: ("label", name), ("{", ""), ("}", "") or ("do", text)."""
    body = re.sub(r"//[^\n]*", "", body)
    label = re.compile(r"(\$?[A-Za-z_][\w$]*):(?!:)")
    at = 0
    while at < len(body):
        if body[at].isspace() or body[at] == ";":
            at += 1
        elif body[at] in "{}":
            yield body[at], ""
            at += 1
        elif found := label.match(body, at):
            yield "label", found[1]
            at = found.end()
        else:
            end = body.index(";", at)
            yield "do", " ".join(body[at:end].split())
            at = end + 1


def operands(text: str) -> list[str]:
    """Operands at the commas outside brackets."""
    return [part.strip() for part in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", text)]


def members(text: str) -> list[str]:
    """Operands of a vector, `{%r1, %r2}`, or the one of none."""
    return [part.strip() for part in text.strip("{} ").split(",")]


def size(kind: str) -> int:
    """Bits of a type's name."""
    return int(re.sub(r"\D", "", kind))


def integer(kind: str, signed: bool | None = None) -> str:
    """The C++ type of a PTX integer type; `signed` where an instruction does not care."""
    return f"{'' if (kind[0] == 's' if signed is None else signed) else 'u'}int{size(kind)}_t"


@dataclass
class Piece:
    """Statements that lanes run through together; `together`: not before all of the warp has come."""

    code: list[str] = field(default_factory=list)
    together: bool = False
    ends: bool = False


class Entry:
    """One kernel, and its C++."""

    def __init__(self, name: str, parameters: tuple[str, ...]) -> None:
        self.name, self.parameters = name, parameters
        self.count = dict.fromkeys(WIDTHS, 0)
        self.scopes: list[dict[str, tuple[str, int]]] = [{}]
        self.pieces = [Piece()]
        self.labels: dict[str, int] = {}

    def read(self, body: str) -> None:
        """Translate a body."""
        for kind, text in statements(body):
            if kind == "{":
                self.scopes.append({})
            elif kind == "}":
                self.scopes.pop()
            elif kind == "label":
                self.pieces.append(Piece())
                self.labels[text] = len(self.pieces) - 1
            elif text.startswith(".reg"):
                self.declare(text)
            elif not text.startswith((".param", "st.param", ".pragma")):
                self.instruction(text)
        self.end("w.live &= ~m;")

    def declare(self, text: str) -> None:
        kind, names = re.fullmatch(r"\.reg \.(\w+)\s+(.*)", text).groups()
        of = CLASSES["pred" if kind == "pred" else kind[-2:]]
        for name in members(names):
            many = re.fullmatch(r"(%?\w+)<(\d+)>", name)
            for one in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                self.scopes[-1][one] = (of, self.count[of])
                self.count[of] += 1

    # --- operands -------------------------------------------------------------------------------------------------
    def register(self, name: str) -> tuple[str, int] | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def number(self, name: str) -> int:
        """A register's number; of a constant zero, the one that stands for it."""
        found = self.register(name)
        if found is None and re.fullmatch(r"0[fF]0+|0", name):
            return -1
        return found[1]

    def bits(self, operand: str) -> tuple[str, int]:
        """C++ of an operand's bits in lane l, and how many."""
        found = self.register(operand)
        if found and found[0] == "p":
            return f"(w.p[{found[1]}] >> l & 1)", 1
        if found:
            return f"w.{found[0]}[{32 * found[1]} + l]", WIDTHS[found[0]]
        if operand in SPECIAL:
            return SPECIAL[operand], 32
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", operand):
            return f"0x{operand[2:]}u", 32
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+U?", operand):
            return f"uint64_t({operand.rstrip('U')}ll)", 64
        if operand in self.parameters:
            return "uint64_t(w.parameters)", 64
        if operand.endswith("block_sharedE"):
            return "uint64_t(0)", 64
        raise UnknownInstructionError(f"the operand {operand}")

    def get(self, operand: str, kind: str) -> str:
        """C++ of an operand as a type."""
        value = self.bits(operand)[0]
        if kind == "pred":
            return value
        return f"real(uint32_t({value}))" if kind == "f32" else f"{integer(kind)}({value})"

    def put(self, operand: str, value: str, kind: str = "") -> str:
        """C++ that gives a register a value."""
        of, number = self.register(operand)
        if of == "p":
            return f"w.p[{number}] = (w.p[{number}] & ~(1u << l)) | uint32_t(bool({value})) << l;"
        return f"w.{of}[{32 * number} + l] = {f'bits({value})' if kind == 'f32' else f'uint{WIDTHS[of]}_t({value})'};"

    def address(self, operand: str) -> str:
        base, offset = re.fullmatch(r"\[([^\]+]+)(?:\+(-?\d+))?\]", operand.replace(" ", "")).groups()
        value, width = self.bits(base)
        whole = f"{value} + ({offset or 0}ll)"
        return f"uint64_t(uint32_t({whole}))" if width == 32 else f"uint64_t({whole})"

    # --- instructions ---------------------------------------------------------------------------------------------
    def end(self, code: str) -> None:
        self.pieces[-1].code.append(code)
        self.pieces[-1].ends = True
        self.pieces.append(Piece())

    def by_warp(self, code: str) -> None:
        self.pieces[-1].together = True
        self.pieces[-1].code.append(code)

    def instruction(self, text: str) -> None:
        """Translate one instruction, guard and all."""
        guard, active = re.match(r"@(!?)(%?\w+) (.*)", text), "m"
        if guard:
            active, text = f"(m & {'~' if guard[1] else ''}w.p[{self.number(guard[2])}])", guard[3]
        name, _, rest = text.partition(" ")
        words, given = name.split("."), operands(rest)
        if words[0] == "bra":
            there, behind = self.labels_of(given[0]), len(self.pieces)
            self.end(f"{{ const uint32_t k = {active}; w.go(m & ~k, {behind}); w.go(k, {there}); }}")
        elif words[0] in ("ret", "exit"):
            behind = len(self.pieces)
            self.end(f"w.go(m, {behind}); w.live &= ~{active};")
        elif words[0] in ("call", "trap"):
            self.pieces[-1].code.append(f'fail("the kernel gave up ({words[0]})");')
        elif words[0] == "bar":
            self.barrier(words, given)
        elif words[0] in ("mma", "ldmatrix", "movmatrix", "shfl", "vote", "redux"):
            if guard:
                raise UnknownInstructionError(f"a guard before {name}")
            self.by_warp(self.warp_wide(words, given))
        elif words[0] not in NOTHING:
            if words[0] == "nanosleep" or "acquire" in words:
                self.pieces[-1].code.append("w.yields = true;")
            if words[0] != "nanosleep":
                code = self.lane(words, given)
                self.pieces[-1].code.append(
                    f"for (uint32_t k = {active}, l = 0; l < 32; l++) if (k >> l & 1) {{ {code} }}"
                )

    def labels_of(self, label: str) -> str:
        """A label's piece, which may not be known yet."""
        return f"<{label}>"

    def barrier(self, words: list[str], given: list[str]) -> None:
        if words[1] == "warp":
            self.by_warp("")
            return
        ident, threads = (f"int({self.bits(one)[0].replace('+ l', '+ 0')})" for one in [*given, "0"][:2])
        threads = threads if len(given) > 1 else "w.of->threads"
        if words[1] == "arrive":
            self.by_warp(f"arrive_barrier(w, {ident}, {threads});")
            return
        self.pieces.append(Piece())  # it is tried again until it is passed: nothing else may be repeated
        self.by_warp(f"if (!sync_barrier(w, {ident}, {threads})) return false;")
        self.pieces.append(Piece())

    def warp_wide(self, words: list[str], given: list[str]) -> str:
        """C++ of what all lanes do together."""

        def quad(text: str) -> str:
            return "{{" + ", ".join(str(self.number(one)) for one in members(text)) + "}}"

        if words[0] == "mma":
            if words[3:] != ["m16n8k16", "row", "col", "f32", "bf16", "bf16", "f32"]:
                raise UnknownInstructionError(".".join(words))
            b = ", ".join(str(self.number(one)) for one in members(given[2]))
            return f"multiply(w, {quad(given[0])}, {quad(given[1])}, {b}, {quad(given[3])});"
        if words[0] == "ldmatrix":
            address, transposed = self.number(given[1].strip("[]")), str("trans" in words).lower()
            return f"load_matrices(w, {quad(given[0])}, {address}, {transposed});"
        if words[0] == "movmatrix":
            return f"transpose_matrix(w, {self.number(given[0])}, {self.number(given[1])});"
        if words[0] == "shfl":
            to, _, good = given[0].partition("|")
            read = f"b[l] = {self.get(given[2], 'u32')}, c[l] = {self.get(given[3], 'u32')};"
            call = f"exchange(w, {SHUFFLES[words[2]]}, {self.number(to)}, {self.number(given[1])}, b, c);"
            keep = f"w.p[{self.number(good)}] = " if good else ""
            return f"{{ uint32_t b[32], c[32]; for (int l = 0; l < 32; l++) {read} {keep}{call} }}"
        if words[0] == "vote":
            bits = f"{'~' if given[1][0] == '!' else ''}w.p[{self.number(given[1].lstrip('!'))}]"
            of_all = {"any": f"({bits}) != 0", "all": f"({bits}) == all_lanes"}[words[2]]
            return f"w.p[{self.number(given[0])}] = {of_all} ? all_lanes : 0;"
        if tuple(words[2:]) not in REDUCTIONS:
            raise UnknownInstructionError(".".join(words))
        first, step = REDUCTIONS[words[2], words[3]]
        all_lanes = f"for (int l = 0; l < 32; l++) x = {step.format(self.get(given[1], 's32'))};"
        return f"{{ int x = {first}; {all_lanes} for (int l = 0; l < 32; l++) {self.put(given[0], 'x')} }}"

    def lane(self, words: list[str], given: list[str]) -> str:
        """C++ of what a lane does."""
        name, kind = words[0], words[-1]
        special = getattr(self, f"do_{name}", None)
        if special:
            return special(words, given)
        if name == "not":
            return self.put(given[0], f"{'!' if kind == 'pred' else '~'}{self.bits(given[1])[0]}")
        if name in ("and", "or", "xor"):
            return self.put(given[0], f"{self.bits(given[1])[0]} {INFIX[name]} {self.bits(given[2])[0]}")
        if name in OF_REALS and kind == "f32":
            return self.put(given[0], f"{OF_REALS[name]}({self.get(given[1], kind)})", kind)
        if name == "neg":
            return self.put(given[0], f"-{self.get(given[1], kind)}")
        if name in ("min", "max"):
            function = f"std::f{name}" if kind == "f32" else f"std::{name}"
            return self.put(given[0], f"{function}({self.get(given[1], kind)}, {self.get(given[2], kind)})", kind)
        if name == "add" and "rz" in words:
            return self.put(given[0], f"add_towards_zero({self.get(given[1], kind)}, {self.get(given[2], kind)})", kind)
        if name in INFIX:
            asked = kind if kind == "f32" or name in ("div", "rem") else f"u{size(kind)}"
            return self.put(given[0], f"{self.get(given[1], asked)} {INFIX[name]} {self.get(given[2], asked)}", kind)
        raise UnknownInstructionError(".".join(words))

    def do_mov(self, words: list[str], given: list[str]) -> str:
        def part(count: int) -> int:
            return size(words[1]) // count

        if given[0].startswith("{"):
            to = members(given[0])
            put = (self.put(one, f"x >> {part(len(to)) * i}") for i, one in enumerate(to))
            return f"const uint64_t x = {self.bits(given[1])[0]}; {' '.join(put)}"
        if given[1].startswith("{"):
            parts = members(given[1])
            kind = f"u{part(len(parts))}"
            shifted = (f"uint64_t({self.get(one, kind)}) << {part(len(parts)) * i}" for i, one in enumerate(parts))
            return self.put(given[0], " | ".join(shifted))
        return self.put(given[0], self.bits(given[1])[0])

    def do_cvta(self, _words: list[str], given: list[str]) -> str:
        return self.put(given[0], self.bits(given[1])[0])

    def do_cvt(self, words: list[str], given: list[str]) -> str:
        to, source = words[-2:]
        if to == "bf16x2":
            return self.put(given[0], f"pair_of_bf16({self.get(given[1], 'f32')}, {self.get(given[2], 'f32')})")
        if to == "bf16":
            return self.put(given[0], f"to_bf16({self.get(given[1], 'f32')})")
        if source[0] not in "su" or (to != "f32" and to[0] not in "su"):
            raise UnknownInstructionError(".".join(words))
        return self.put(given[0], f"{'float' if to == 'f32' else integer(to)}({self.get(given[1], source)})", to)

    def do_setp(self, words: list[str], given: list[str]) -> str:
        x, y = (self.get(one, words[2]) for one in given[1:])
        return self.put(given[0], f"{x} {COMPARISONS[words[1]]} {y}")

    def do_selp(self, _words: list[str], given: list[str]) -> str:
        x, y, which = (self.bits(one)[0] for one in given[1:])
        return self.put(given[0], f"{which} ? uint64_t({x}) : uint64_t({y})")

    def do_shl(self, words: list[str], given: list[str]) -> str:
        x, by, width = self.get(given[1], f"u{size(words[-1])}"), self.get(given[2], "u32"), size(words[-1])
        return self.put(given[0], f"{by} >= {width} ? 0 : {x} << {by}")

    def do_shr(self, words: list[str], given: list[str]) -> str:
        kind, width = words[-1].replace("b", "u"), size(words[-1])
        x, by = self.get(given[1], kind), self.get(given[2], "u32")
        return self.put(
            given[0], f"{x} >> std::min({by}, {width - 1}u)" + ("" if kind[0] == "s" else f" >> ({by} >= {width})")
        )

    def do_bfi(self, _words: list[str], given: list[str]) -> str:
        return self.put(given[0], f"insert_bits({', '.join(self.get(one, 'u32') for one in given[1:])})")

    def do_prmt(self, _words: list[str], given: list[str]) -> str:
        return self.put(given[0], f"permute_bytes({', '.join(self.get(one, 'u32') for one in given[1:])})")

    def do_mul(self, words: list[str], given: list[str]) -> str:
        kind = words[-1]
        if kind == "f32":
            return self.put(given[0], f"{self.get(given[1], kind)} * {self.get(given[2], kind)}", kind)
        if words[1] == "lo":
            return self.put(
                given[0], f"{self.get(given[1], f'u{size(kind)}')} * {self.get(given[2], f'u{size(kind)}')}"
            )
        wide = integer(f"{kind[0]}{2 * size(kind)}")
        product = f"{wide}({self.get(given[1], kind)}) * {self.get(given[2], kind)}"
        return self.put(given[0], product if words[1] == "wide" else f"({product}) >> {size(kind)}")

    def do_mad(self, words: list[str], given: list[str]) -> str:
        if words[1] != "lo":
            raise UnknownInstructionError(".".join(words))
        x, y, z = (self.get(one, f"u{size(words[-1])}") for one in given[1:])
        return self.put(given[0], f"{x} * {y} + {z}")

    def do_fma(self, words: list[str], given: list[str]) -> str:
        if words[-1] == "f32":
            return self.put(given[0], f"std::fma({', '.join(self.get(one, 'f32') for one in given[1:])})", "f32")
        each = [self.get(one, "u32") for one in given[1:]]
        high = ", ".join(f"real_of_bf16({one} >> 16)" for one in each)
        low = ", ".join(f"real_of_bf16({one} & 0xffff)" for one in each)
        return self.put(given[0], f"pair_of_bf16(std::fma({high}), std::fma({low}))")

    def do_cp(self, words: list[str], given: list[str]) -> str:
        if words[2] == "mbarrier":
            return f"arrive_after_copies(w, l, {self.address(given[0])});"
        if words[2] == "commit_group":
            return "end_group(w, l);"
        if words[2] == "wait_group":
            return f"wait_for_groups(w, l, {given[0]});"
        count = "16"
        if len(given) > 3:  # bytes that are read, or a predicate: read none
            value, width = self.bits(given[3])
            count = f"{value} ? 0 : 16" if width == 1 else f"int({value})"
        return f"start_copy(w, l, {self.address(given[0])}, {self.address(given[1])}, {count});"

    def do_mbarrier(self, words: list[str], given: list[str]) -> str:
        if words[1] == "init":
            return f"init_mbarrier(w, {self.address(given[0])}, {self.get(given[1], 'u32')});"
        if words[1] == "arrive":
            return f"arrive_mbarrier(w, {self.address(given[-1])});"
        return self.put(given[0], f"test_mbarrier(w, {self.address(given[1])}, {self.get(given[2], 'u32')})")

    def place(self, words: list[str], address: str, count: int) -> str:
        """C++ of where so many bytes are."""
        if "param" in words:
            return f"reinterpret_cast<uint8_t*>({self.address(address)})"
        if "shared" in words or "shared::cta" in words:
            return f"shared(w, {self.address(address)}, {count})"
        return f"global({self.address(address)}, {count})"

    def do_ld(self, words: list[str], given: list[str]) -> str:
        to, width = members(given[0]), size(words[-1]) // 8
        kind = "float" if words[-1] == "f32" else integer(words[-1])
        read = (
            f"{{ {kind} x; memcpy(&x, from + {width * i}, {width}); {self.put(one, 'x', words[-1])} }}"
            for i, one in enumerate(to)
        )
        return f"const uint8_t* const from = {self.place(words, given[1], width * len(to))}; {' '.join(read)}"

    def do_st(self, words: list[str], given: list[str]) -> str:
        values, width = members(given[1]), size(words[-1]) // 8
        written = (
            f"{{ const auto x = uint{8 * width}_t({self.bits(one)[0]}); memcpy(to + {width * i}, &x, {width}); }}"
            for i, one in enumerate(values)
        )
        return f"uint8_t* const to = {self.place(words, given[0], width * len(values))}; {' '.join(written)}"

    def do_red(self, words: list[str], given: list[str]) -> str:
        return self.do_atom(words, ["", *given])

    def do_atom(self, words: list[str], given: list[str]) -> str:
        kind = "float" if words[-1] == "f32" else integer(words[-1])
        result = {"add": "old + x", "max": "std::max(old, x)", "exch": "x"}[words[-2]]
        keep = self.put(given[0], "old", words[-1]) if given[0] else ""
        return (
            f"auto* const at = reinterpret_cast<{kind}*>({self.place(words, given[1], size(words[-1]) // 8)}); "
            f"const {kind} old = *at, x = {self.get(given[2], words[-1])}; *at = {result}; {keep}"
        )

    # --- the whole ------------------------------------------------------------------------------------------------
    def code(self) -> str:
        """The C++ of this kernel: a source file."""
        lines = ['#include "machine.h"', "", "using namespace ptx;", "", "namespace {", ""]
        for i, piece in enumerate(self.pieces):
            lines.append(f"bool piece_{i}(warp& w, uint32_t m) {{")
            if piece.together:
                lines.append("if (m != w.live) return false;")
            lines += (re.sub(r"<(\$\w+)>", lambda label: str(self.labels[label[1]]), one) for one in piece.code)
            if not piece.ends:
                lines.append(f"w.go(m, {i + 1});")
            lines.append("return true;\n}")
        lines.append(f"constexpr piece pieces[] = {{{', '.join(f'piece_{i}' for i in range(len(self.pieces)))}}};")
        counts = ", ".join(str(self.count[one]) for one in "phrd")
        lines.append(f'const addition added{{{{"{self.name}", {counts}, pieces}}}};\n\n}}  // namespace\n')
        return "\n".join(lines)
