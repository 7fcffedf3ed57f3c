"""The tests: unit (a mirror of meshwatchd), property, sim, golden, contract, lab, meta."""
