"""Packages for distributions: one self-contained tree, wrapped as each of them wants it.

bundle.py   interpreter, libraries, locked packages and the daemon, below /usr/lib/meshwatchd
deb.py      a Debian package of it, with dpkg-deb
rpm.py      a package for Fedora and its kin, with rpmbuild
sysext.py   a system extension of systemd (systemd-sysext(8)), as squashfs
image.py    an OCI image for containers, with a root of its own (scripts.talos_extension)
"""
