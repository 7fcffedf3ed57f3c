"""How an operator has the identity of a node forgotten: parameters and reply."""

from __future__ import annotations

import msgspec


class ForgetParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Forget."""

    node: str


class ForgetReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Forget; `was_known`: an identity of the node was remembered."""

    was_known: bool
