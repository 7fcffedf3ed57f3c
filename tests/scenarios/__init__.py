"""The faults a failover daemon has to live with, each with the tests that hold it to that."""
