"""The decisions, as pure as arithmetic.

`engine.handle(event, now=...)` yields commands (effects it asks for) and facts (what it has concluded);
`engine.deadline()` says when it wants to be called although nothing happened. There is no clock, no socket,
no log and no dice in here: time and randomness are arguments, results of commands come back as events. That
is what lets one engine run under epoll in production, under a virtual clock with a thousand others in a
test, and once more over a recorded journal to explain a decision of last week.
"""
