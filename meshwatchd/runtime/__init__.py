"""The two processes, and what ties the pure core to time and to the kernel.

The engine process is one loop (epoll and one timer, at real-time priority) around the core: it sends probes,
answers them, and switches routes with messages packed in advance, waiting for nobody. The agent process does
everything that may be slow or may crash: netlink monitoring, the control socket, logs, metrics. They exchange
typed messages over a socket pair, and either survives the death of the other.
"""
