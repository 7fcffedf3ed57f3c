"""What other programs of this node know of the mesh: Kilo's agent, Cilium's agent, files of flannel and of wg-quick.

    127.0.0.1:1107   --http---> kilo_graph, kilo_metrics --+
    cilium.sock      --http---> cilium_nodes --------------+--> SourceReader --> Sources --> profiles
    subnet.env, net-conf.json, *.conf --file--> flannel_files, quick_file

None of them is needed, and none is trusted: each answer has a limit in size and time and is checked as a whole. One
that does not pass is told with its source and the reason, and the last one that did stays.
"""

from __future__ import annotations

from meshwatchd.adapters.sources.reader import SourceReader

__all__ = ["SourceReader"]
