"""What the daemon's processes leave out of packages that they import: memory that an interpreter never gives back."""

from __future__ import annotations

import sys
from types import ModuleType


def leave_out(*modules: str) -> None:
    """Have these not be there, for packages that load them wherever something has installed them."""
    for name in modules:
        sys.modules[name] = None  # type: ignore[assignment]


def stand_in(*modules: str) -> None:
    """Have these be empty, for packages that load them whether they are used or not: what is read of them is None."""
    for name in modules:
        empty = ModuleType(name)
        empty.__getattr__ = lambda _name: None  # type: ignore[method-assign]
        sys.modules[name] = empty


def load_parts_of(package: str) -> None:
    """Have a package whose face is not read: what is imported are the modules of it that somebody names.

    A package that is not there is left to the import that fails.
    """
    from importlib.util import find_spec, module_from_spec  # noqa: PLC0415 - the engine needs none of it

    spec = find_spec(package)
    if spec is not None and package not in sys.modules:
        sys.modules[package] = module_from_spec(spec)
