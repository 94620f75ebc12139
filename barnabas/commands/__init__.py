"""The verbs of `barnabas`: one module each, with a click command (or group) named `command`.

`barnabas.cli` imports a verb's module only when that verb is called, and has its line of help in VERBS.
"""
