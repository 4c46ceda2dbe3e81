"""Settings of Sphinx for the documentation site. `scripts/docs_site` builds it."""

from __future__ import annotations

from typing import Any

from pygments.lexers.special import TextLexer

project = "Wattfold"
project_copyright = "the authors of Wattfold, Apache-2.0"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Wattfold"
html_show_sphinx = False
html_copy_source = False
# Each heading has the anchor that GitHub gives it, so the links of the documents work in both.
myst_heading_anchors = 6


def setup(app: Any) -> None:
    """Show blocks without a lexer as plain text."""
    for name in ("csv", "mermaid"):
        app.add_lexer(name, TextLexer)
