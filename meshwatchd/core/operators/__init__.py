"""What an operator's request means, and what status answers.

`move_requests` checks and starts moves (failover, failback, pin), `hold_requests` takes operator holds (pause, drain,
pin, confirm), `status` builds the whole picture.

In: `OperatorRequested` events, and the engine's state. Out: `ReplyOperator`, and the moves and holds it stands for.
"""
