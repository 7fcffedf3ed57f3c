"""What `meshwatchctl doctor` looks at on this machine itself, whether or not a daemon runs. Nothing is changed.

Each module reads one neighbourhood and judges it: `machine` (kernel, clock, networkd), `ports` (who has our UDP ports),
`firewall` (chains that drop them), `policy_rules` (rules of others in our place), `tunnels` (wg-quick's files against
the devices), `setup` (configuration and keys). The judging functions are pure; what cannot be read is a note, never an
error.
"""
