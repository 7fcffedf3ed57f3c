"""Whether, where and how the traffic between two locations moves.

One `pair_controller` for each pair of locations ties the room together: `confirm_burst` makes sure that a suspicion is
right, `pair_diagnosis` has its cause named, `policy` and `damping` choose a path by what `pair_situation` describes or
hold still, `negotiation` agrees with the other relay, `switchover` changes the kernel and verifies the result.
`path_retirement` leaves a path that a new mesh does not have any more.

In: session outcomes, verdicts, peers' messages, operator holds, time. Out: kernel changes, messages, facts.
"""
