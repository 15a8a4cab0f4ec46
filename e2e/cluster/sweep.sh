#!/bin/sh
# Removes what outlives a node's namespaces: its cgroups and its folder (see src/cluster/host.rs).
#
#   sweep.sh CGROUP FOLDER    begins at the end of its input; the line `keep` spares the folder
cgroup=$1 folder=$2
trap '' HUP INT TERM

keep=
while read -r word; do
  [ "$word" = keep ] && keep=yes
done

# A cgroup is busy until the last of its processes is gone: at most 10 s.
for _ in $(seq 400); do
  left=
  for top in "/sys/fs/cgroup/$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
    [ -d "$top" ] || continue
    find "$top" -depth -type d -exec rmdir {} + 2> /dev/null
    [ -d "$top" ] && left=yes
  done
  [ -n "$left" ] || break
  sleep 0.025
done
[ -n "$keep" ] || rm -rf "$folder"
