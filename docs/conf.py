"""Settings of the documentation; `make docs` builds it."""

import json
import os

from windlass import __version__

project = "Windlass"
release = __version__
html_title = f"Windlass {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid"]
autodoc_mock_imports = ["torch", "numpy"]  # so that the documentation builds without them
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
mermaid_d3_zoom = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["print.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_favicon = "../src/windlass/server/dashboard/assets/icon.svg"
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = {"versions": json.loads(os.environ.get("WINDLASS_DOCS_VERSIONS", "{}"))}  # of tools/build_docs.py
