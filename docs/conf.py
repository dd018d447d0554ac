"""Settings of the documentation; `make docs` builds it."""

from windlass import __version__

project = "Windlass"
release = __version__
html_title = f"Windlass {release}"

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
mermaid_d3_zoom = False

html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
