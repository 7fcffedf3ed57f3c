"""What can go wrong in a build, for a person to read."""

from __future__ import annotations


class BuildError(Exception):
    """Why there is no image, and what to do about it."""
