#!/bin/bash
# Process 1 of a test node, in mount, network and pid namespaces of its own (see src/cluster/node.rs).
# Whatever it makes (mounts, links, rules, containers) ends with these namespaces, and they end with it.
#
#   node.sh FOLDER BIN IMAGES...    FOLDER holds pki/, the configurations, and gets logs/, pids/, cmd/
set -u
folder=$1 bin=$2
shift 2

# The kubelet shares mounts with containers; the host is not to see any of them.
mount --make-rprivate / && mount --make-rshared /
# The usual paths of kubelet, containerd, etcd and CNI, private and in memory.
mount -t tmpfs -o mode=755,size=6g tmpfs /var/lib
mount -t tmpfs -o mode=755,size=256m tmpfs /run
mkdir -p "$folder"/logs/pods /run/netns /run/lock /var/lib/{etcd,kubelet,containerd,cni}
mount --bind "$folder/logs" /var/log
mkdir -p /var/log/containers

# The node is 10.88.0.1, the cluster's DNS 10.96.0.10; both ends of the pair are in here. Without the
# default route a Service's address would be unreachable before kube-proxy's rules see it.
ip link set lo up
ip link add node0 type veth peer name node1 && ip link set node1 up
ip addr add 10.88.0.1/32 dev node0
ip addr add 10.96.0.10/32 dev node0
ip link set node0 up
ip route add default dev node0
echo 1 > /proc/sys/net/ipv4/ip_forward

# start NAME COMMAND...: runs a component; its pid and its command line are kept, so that a test can
# kill it and start it again (FOLDER/restart NAME).
start() {
  local name=$1
  shift
  printf '%q ' "$@" > "$folder/cmd/$name"
  "$@" >> "$folder/logs/$name.log" 2>&1 < /dev/null &
  echo $! > "$folder/pids/$name"
}
pki=$folder/pki

start etcd "$bin/etcd" --data-dir /var/lib/etcd --unsafe-no-fsync --log-level warn \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380
start kube-apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
  --bind-address=0.0.0.0 --advertise-address=10.88.0.1 --secure-port=6443 \
  --service-cluster-ip-range=10.96.0.0/24 \
  --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
  --token-auth-file="$pki/tokens.csv" --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --allow-privileged=true --profiling=false --kubelet-preferred-address-types=InternalIP
start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$pki/kcm.conf" \
  --leader-elect=false --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
  --use-service-account-credentials=true --bind-address=127.0.0.1 --node-monitor-period=1s \
  --node-monitor-grace-period=15s --horizontal-pod-autoscaler-sync-period=3s \
  --flex-volume-plugin-dir=/var/lib/kubelet/volumeplugins --kube-api-qps=500 --kube-api-burst=1000 \
  --authentication-skip-lookup=true
start kube-scheduler "$bin/kube-scheduler" --kubeconfig="$pki/scheduler.conf" --leader-elect=false \
  --bind-address=127.0.0.1 --authentication-skip-lookup=true
start kube-proxy "$bin/kube-proxy" --config="$folder/proxy.yaml" --hostname-override=e2e
start coredns "$bin/coredns" -conf "$folder/Corefile"
start containerd containerd --config "$folder/containerd.toml"
until [ -S /run/containerd/containerd.sock ] && ctr version > /dev/null 2>&1; do sleep 0.05; done
for image in "$@"; do
  ctr -n k8s.io images import "$image"
done >> "$folder/logs/import.log" 2>&1
start kubelet "$bin/kubelet" --config="$folder/kubelet.yaml" --kubeconfig="$pki/kubelet.conf" \
  --hostname-override=e2e --node-ip=10.88.0.1 --root-dir=/var/lib/kubelet

# Children of others end up here; without a wait they would stay as zombies.
trap 'exit 0' TERM INT
while :; do wait -n 2> /dev/null || sleep 0.2; done
