"""From a TOML file to settings that can be trusted, or one line that says what to correct.

Loading parses, converts and cross-checks the whole file before anything else starts: an unknown key, a wrong
unit, overlapping prefixes or a readable secret end the program with file, key and remedy. The other
direction, settings to TOML, renders the effective configuration and the commented sample, so neither can
drift from the code.
"""
