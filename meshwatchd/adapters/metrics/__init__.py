"""Figures in Prometheus' text format."""
