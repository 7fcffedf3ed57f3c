#!/bin/sh
# Example: the mesh key to all nodes, or a new package to one node after the other, over plain ssh.
#
# usage: rolling-upgrade.sh key mesh.key NODE...
#        rolling-upgrade.sh package meshwatchd_VERSION_amd64.deb NODE...
#
# Stops at the first node that is not well afterwards (meshwatchctl status: 0): one bad node is all there can be.
set -eu

what=$1 file=$2
shift 2
for node; do
    echo "==> $node"
    case $what in
    key)
        ssh "root@$node" 'umask 077; mkdir -p /etc/meshwatchd; cat >/etc/meshwatchd/mesh.key.new &&
            mv /etc/meshwatchd/mesh.key.new /etc/meshwatchd/mesh.key && meshwatchd --check' <"$file"
        continue
        ;;
    package)
        scp -q "$file" "root@$node:/var/tmp/meshwatchd.deb"
        # Traffic moves off the node first, so that its silence is no alarm.
        ssh "root@$node" 'set -e
            meshwatchctl drain --for 10m --reason upgrade
            apt-get install -y -q /var/tmp/meshwatchd.deb
            rm /var/tmp/meshwatchd.deb
            meshwatchctl undrain'
        ;;
    esac
    tries=30
    until ssh "root@$node" meshwatchctl status; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "$node is not well; nothing further was touched" >&2 && exit 1; }
        sleep 2
    done
done
