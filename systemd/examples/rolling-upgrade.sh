#!/bin/sh
# Example: a package to one node after the other, or the mesh key to all of them, over plain ssh.
#
# usage: rolling-upgrade.sh package meshwatchd_VERSION_amd64.deb NODE...
#        rolling-upgrade.sh key mesh.key NODE...
#
# At first the package, then the key, then `systemctl enable --now meshwatchd` on each node. An upgrade is the package
# alone; it stops at the first node that is not well afterwards (meshwatchctl status: 0), so that one bad node is all
# there can be.
set -eu

what=$1 file=$2
shift 2
# Nobody is asked: a configuration that was edited stays, and the new sample is put beside it (.dpkg-dist). One that the
# new version refuses ends this here, with that node drained for ten minutes at most.
install='DEBIAN_FRONTEND=noninteractive apt-get install -y -q -o Dpkg::Options::=--force-confdef \
    -o Dpkg::Options::=--force-confold /var/tmp/meshwatchd.deb </dev/null && rm /var/tmp/meshwatchd.deb'
check='meshwatchd --check >/dev/null'
for node; do
    echo "==> $node"
    case $what in
    key)
        ssh "root@$node" 'install -d -m 755 /etc/meshwatchd; umask 077; cat >/etc/meshwatchd/mesh.key.new &&
            mv /etc/meshwatchd/mesh.key.new /etc/meshwatchd/mesh.key && meshwatchd --check' <"$file"
        continue
        ;;
    package)
        scp -q "$file" "root@$node:/var/tmp/meshwatchd.deb"
        if ! ssh "root@$node" systemctl --quiet is-active meshwatchd; then
            # A first installation has no key yet.
            ssh "root@$node" "$install"
            echo "$node: no daemon runs; next: systemctl enable --now meshwatchd"
            continue
        fi
        # Traffic moves off the node first, so that its silence is no alarm. The new daemon takes a moment to answer.
        ssh "root@$node" 'meshwatchctl drain --for 10min --reason upgrade'
        ssh "root@$node" "$install && $check"
        ssh "root@$node" 'tries=30
            until meshwatchctl undrain; do
                tries=$((tries - 1))
                [ "$tries" -gt 0 ] || exit 1
                sleep 1
            done'
        ;;
    esac
    tries=30
    until ssh "root@$node" meshwatchctl status; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { echo "$node is not well; nothing further was touched" >&2 && exit 1; }
        sleep 2
    done
done
