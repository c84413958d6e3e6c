"""`python -m paper_figures.reproduce`, the same as `reproduce-paper`."""

from __future__ import annotations

from paper_figures.command.reproduce import main

if __name__ == "__main__":
    raise SystemExit(main())
