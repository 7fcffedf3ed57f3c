"""Tests that share one mesh. The folder is a package: pytest ends a package's fixtures with its last test."""
