"""Sphinx extensions that write the manual's tables from the code, so that they cannot be out of date."""
