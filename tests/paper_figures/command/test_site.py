"""A report for an address: what shows a shared link finds its picture there."""

from __future__ import annotations

import re
from pathlib import Path

from reproduction_support import TABLE1, run


def test_a_shared_link_has_its_page_and_its_picture_by_absolute_address(place: Path, recorded: Path) -> None:
    words = ("report", str(recorded), "--exhibit", TABLE1.id)
    assert run(place, *words) == 0
    pages = ("index.html", f"exhibits/{TABLE1.id}.html")
    for name in pages:
        text = (place / "report" / name).read_text()
        assert "canonical" not in text  # nobody knows where it will stand
        assert re.search(r'og:image" content="(\.\./)?figures/', text)
    assert run(place, *words, "--site", "https://example.org/tk/") == 0
    for name in pages:
        text = (place / "report" / name).read_text()
        assert f'<link rel="canonical" href="https://example.org/tk/{name}">' in text
        [picture] = re.findall(r'og:image" content="https://example.org/tk/([^"]*)"', text)
        assert (place / "report" / picture).read_bytes().startswith(b"\x89PNG")
