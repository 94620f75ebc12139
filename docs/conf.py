"""Sphinx settings."""

project = "Barnabas"
copyright = "the Barnabas contributors"
author = "the Barnabas contributors"
extensions: list[str] = []
exclude_patterns = ["_build"]
html_theme = "alabaster"
