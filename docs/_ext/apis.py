"""The table of APIs, from the modules that serve them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from brokerd.exposition import request_name
from brokerd.handlers import REGISTRY
from docs._ext.generated import Generated, code, plain, table
from kafka_wire.apis import Api


def handlers() -> list[ModuleType]:
    """The modules that serve an API, by its key."""
    return [REGISTRY[key] for key in sorted(REGISTRY)]


def about(module: ModuleType) -> str:
    """What the module says of itself, without the name of the API that it begins with."""
    first = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    text = first.removeprefix(request_name(module.API)).lstrip(":, ")
    return plain(text[:1].upper() + text[1:])


def _row(module: ModuleType) -> tuple[str, ...]:
    first, last = module.VERSIONS
    advertised = getattr(module, "ADVERTISED_MIN", first)
    note = f" (advertised from {advertised})" if advertised != first else ""
    return str(int(module.API)), request_name(module.API), f"{first} to {last}{note}", about(module)


class ServedApis(Generated):
    """One row for each API that is served."""

    def make(self) -> str:
        return table(("Key", "API", "Versions", "What it does here"), [_row(one) for one in handlers()], "6 22 20 52")


class UnservedApis(Generated):
    """The names of all others."""

    def make(self) -> str:
        served = {int(one.API) for one in handlers()}
        return ", ".join(code(f"{request_name(api)} ({int(api)})") for api in Api if int(api) not in served) + ".\n"


def setup(app: Any) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("served-apis", ServedApis)
    app.add_directive("unserved-apis", UnservedApis)
    return {"parallel_read_safe": True}
