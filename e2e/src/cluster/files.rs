//! The configurations of a node's components.

use std::io;
use std::path::Path;
use std::process::Command;

use super::host;

/// Writes the configuration of every component into the node's folder.
pub(super) fn write(folder: &Path, cgroup: &str) -> io::Result<()> {
    let at = |name: &str| folder.join(name);
    std::fs::write(at("resolv.conf"), "")?;
    std::fs::write(at("kubelet.yaml"), kubelet(folder, cgroup))?;
    std::fs::write(at("proxy.yaml"), proxy(folder))?;
    std::fs::write(at("Corefile"), dns(folder))?;
    std::fs::write(at("containerd.toml"), containerd(folder))?;
    std::fs::create_dir_all(at("cni"))?;
    std::fs::write(at("cni/10-e2e.conflist"), CNI)
}

/// cgroup v1 is still met on test machines, and evictions of a full disk would hit the wrong pods.
fn kubelet(folder: &Path, cgroup: &str) -> String {
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.88.0.1
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: {}/resolv.conf
failSwapOn: false
evictionHard: {{memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
volumeStatsAggPeriod: 10m
healthzBindAddress: 127.0.0.1
volumePluginDir: /var/lib/kubelet/volumeplugins
"#,
        folder.display()
    )
}

/// conntrack 0: the machine's own settings are not touched.
fn proxy(folder: &Path) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
         kind: KubeProxyConfiguration\n\
         mode: nftables\n\
         clientConnection: {{kubeconfig: {}/pki/proxy.conf}}\n\
         clusterCIDR: 10.88.0.0/16\n\
         bindAddress: 127.0.0.1\n\
         conntrack: {{maxPerCore: 0, min: 0}}\n",
        folder.display()
    )
}

fn dns(folder: &Path) -> String {
    format!(
        ".:53 {{\n  bind 10.96.0.10\n  kubernetes cluster.local {{\n    kubeconfig {}/pki/dns.conf c\n    \
         ttl 0\n  }}\n}}\n",
        folder.display()
    )
}

/// `restrict_oom_score_adj`: a root without `CAP_SYS_RESOURCE` may not lower it, and runc would
/// die of trying, with words that say nothing of it.
fn containerd(folder: &Path) -> String {
    let plugins = host::cni_plugins().unwrap_or("/usr/lib/cni");
    let conf = folder.join("cni");
    let conf = conf.display();
    if containerd_major() >= 2 {
        return format!(
            r#"version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "lockstep.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{conf}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
"#
        );
    }
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "lockstep.test/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{conf}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"#
    )
}

/// The keys of its configuration changed with version 2. Its answer: `containerd SOURCE v2.1.4 COMMIT`.
fn containerd_major() -> u32 {
    let said = Command::new("containerd").arg("--version").output();
    let said = said.map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let version = said.split_whitespace().nth(2).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()).unwrap_or(1)
}

/// `ptp` routes each pod through the node; a bridge would need kernel settings of the machine.
const CNI: &str = r#"{
  "cniVersion": "0.4.0",
  "name": "e2e",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "10.88.1.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
"#;
