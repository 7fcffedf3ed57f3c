"""Durations on the command line: a number and its unit."""

from __future__ import annotations

import click

from meshwatchd.model.units import parse_duration


class Duration(click.ParamType[int]):
    """A duration with its unit ("30s", "5min"), as nanoseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds."""
        try:
            return parse_duration(str(value)) if isinstance(value, str) else int(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
