"""Builds the Talos system extension: an OCI image layout with a Python of Debian's, locked packages and the daemon.

    talos/extension.toml --description--> manifest.yaml, meshwatchd.yaml --.
    apt-get download ------debian------> unpacked packages --.             |
    requirements/runtime.txt ----------> pip install --------+- rootfs ----+-- oci --> one tar file
    this checkout ---------------------> wheel --------------'

Which shared libraries belong to it is asked of the programs themselves (`elf`): whatever is needed and in none of the
packages that the needing one depends on ends the build. The same inputs give the same bytes.
"""
