"""meshwatchd watches a mesh of sites from every node, names the broken layer, and heals what it may.

Start reading at `model` (the vocabulary), then `core` (every decision, without a clock or a socket), then
`runtime` (the two processes that give the core its events and carry out its commands). `wire` turns probe
packets into data and back, `profiles` know what a given mesh looks like, `adapters` are the only code that
touches the world, `bisect` builds encapsulated packets on demand, `config` reads the settings, and `cli` is
meshwatchctl. Imports point one way, from the edges to `model`; pyproject.toml holds the contracts.
"""

__version__ = "0.2.0"
