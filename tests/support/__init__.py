"""Doubles and drivers that tests of several packages share."""
