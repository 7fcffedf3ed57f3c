"""What servers answer, read from what has arrived; `meshwatchctl service` and canaries wait for it each in its way.

dns     the response code, the addresses, who denies the name
tls     how a handshake has ended, and when the certificate ends
http    the status of an answer
"""
