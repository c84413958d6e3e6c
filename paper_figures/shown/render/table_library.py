"""DataTables, the library behind the table of all cases, out of the package `itables` that carries it."""

from __future__ import annotations

import functools
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from paper_figures.errors import PaperFiguresError

PACKAGE = "itables"
_EXPORTS = re.compile(r"export\{([^{}]*)\}")


@functools.cache
def table_library() -> str:
    """The text of a script after which `DataTable` is there, with the licences that the package names in it.

    The package has a module, which a browser does not load from a disk; so its exports become a variable.  Raises
    PaperFiguresError where the package is missing, or is not built as expected.
    """
    try:
        package = distribution(PACKAGE)
        carried = Path(str(package.locate_file(f"{PACKAGE}/html/dt_bundle.js")))
        module = carried.read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError) as error:
        raise PaperFiguresError(f"the report needs the package {PACKAGE} ({error}); run `make env`") from None
    exports = _EXPORTS.findall(module)
    names = dict(reversed(one.split(" as ")) for one in exports[0].split(",")) if len(exports) == 1 else {}
    if "default" not in names:
        raise PaperFiguresError(f"{carried}: has no default export; install the version of constraints.txt")
    script = _EXPORTS.sub(lambda _: f"window.DataTable={names['default']}", module)
    notice = f"/*! DataTables and what it uses, of {PACKAGE} {package.version}: MIT licence, notices at the end */"
    return f"{notice}\n(() => {{{script}\n}})();\n"
