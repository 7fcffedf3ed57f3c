"""Which layer of which node is broken.

`pair_evidence` gathers what the sessions of one pair of locations say, `peer_views` what peers say of theirs, of which
`peer_words` draws conclusions, and the `classifier` puts one consistent cut of it to the ordered `rules`.
`verdict_hold` keeps a verdict steady.

In: session states and peers' banners. Out: a `Verdict` with its reasons.
"""
