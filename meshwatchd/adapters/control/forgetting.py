"""How an operator has the identity of a node forgotten: parameters, reply, and their part of the interface."""

from __future__ import annotations

import msgspec


class ForgetParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Forget."""

    node: str


class ForgetReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Forget; `was_known`: an identity of the node was remembered."""

    was_known: bool


FORGETTING = """\

# Accept whatever identity a node of this name has next. It concerns this daemon alone. Root only.
method Forget(node: string) -> (was_known: bool)
"""
