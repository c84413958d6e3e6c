"""Tables and pages as text: Markdown, LaTeX, HTML."""
