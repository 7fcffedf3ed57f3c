"""Types of single settings: what msgspec refuses when a file is converted, and the words for it.

A bound stands in the annotation of its setting, `Meta(description=...)` is its reason. A string's pattern has
`extra={"problem": ..., "remedy": ...}`, which `config.shape` puts into the complaint.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Duration = Annotated[int, msgspec.Meta(title="duration")]
"""Nanoseconds; a string with a unit ("50ms", "5min") in the file."""

UdpPort = Annotated[int, msgspec.Meta(ge=1, le=65_535)]

_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = {"problem": "is no name", "remedy": "use letters, digits and hyphens, as in a host name"}

Name = Annotated[str, msgspec.Meta(max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*\Z", extra=_NAME)]
"""Of a node or location: dot-separated labels, as a host name."""

OptionalName = Annotated[str, msgspec.Meta(max_length=253, pattern=rf"^({_LABEL}(\.{_LABEL})*)?\Z", extra=_NAME)]
"""A name, or empty for none."""

_HOST_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
ServerName = Annotated[
    str,
    msgspec.Meta(
        max_length=253,
        pattern=rf"^({_HOST_LABEL}(\.{_HOST_LABEL})*)?\Z",
        extra={
            "problem": "is no name of DNS",
            "remedy": "write labels with dots between them, none at the end",
        },
    ),
]
"""A name as servers are asked for it, with underscores as Istio has them; or empty for none."""

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
Ip4Address = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^{_OCTET}(\.{_OCTET}){{3}}\Z",
        extra={"problem": "is no IPv4 address", "remedy": "write four numbers with dots between them, as in 10.71.3.7"},
    ),
]

_PATH = {"problem": "is no absolute path", "remedy": "start it with /"}

AbsolutePath = Annotated[str, msgspec.Meta(pattern=r"^/[^\0]*\Z", extra=_PATH)]
"""A daemon's working directory is nobody's."""

OptionalPath = Annotated[str, msgspec.Meta(pattern=r"^(/[^\0]*)?\Z", extra=_PATH)]
"""An absolute path, or empty for none."""
