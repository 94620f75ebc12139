"""Sphinx settings. Tables of settings, APIs, metrics, nodes and commands are made from the code by docs/_ext."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

project = "Barnabas"
copyright = "the Barnabas contributors"
author = "the Barnabas contributors"
extensions = [
    "docs._ext.settings",
    "docs._ext.apis",
    "docs._ext.metrics",
    "docs._ext.znodes",
    "docs._ext.commands",
    "docs._ext.log_messages",
]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "description": "A log broker cluster in Python, on ZooKeeper, for every Kafka client",
    "page_width": "1180px",
    "fixed_sidebar": True,
}
