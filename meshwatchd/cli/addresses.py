"""Addresses on the command line."""

from __future__ import annotations

import re
from ipaddress import ip_address

import click

DNS_PORT = 53
_WITH_PORT = re.compile(r"\[(?P<six>[^\]]+)\](?::(?P<port6>\d{1,5}))?|(?P<four>[^:]+):(?P<port4>\d{1,5})")


class Address(click.ParamType[str]):
    """An IP address."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """An address in its usual form."""
        try:
            return _parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Server(click.ParamType[tuple[str, int]]):
    """A DNS server: ADDRESS, ADDRESS:PORT, or [ADDRESS]:PORT for IPv6."""

    name = "address[:port]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """An address in its usual form, and a port."""
        found = _WITH_PORT.fullmatch(str(value))
        address, port = str(value), DNS_PORT
        if found is not None:
            address, port = found["six"] or found["four"], int(found["port6"] or found["port4"] or DNS_PORT)
        if not 0 < port < 65_536:
            self.fail(f"{port} is no port", param, ctx)
        try:
            return _parse(address), port
        except ValueError as error:
            self.fail(f"{error}; write it as 10.96.0.10 or [fd00::a]:5353", param, ctx)


def _parse(text: str) -> str:
    """Raises ValueError: it is no address, or its scope is nothing that a socket takes."""
    address = str(ip_address(text))
    address.encode("idna")
    return address
