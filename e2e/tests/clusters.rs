//! The test clusters themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_e2e::cluster::{ApiServer, images, inside};
use lockstep_e2e::until;

#[tokio::test]
async fn an_api_server_answers_and_leaves_nothing_behind() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.37.2");
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!folder.exists());
}

fn cgroups_of(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let folders = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let folders = folders
        .chain([root.to_owned()])
        .map(|folder| folder.join(name));
    folders.filter(|folder| folder.exists()).collect()
}

#[test]
fn a_node_runs_pods_and_leaves_nothing_behind() {
    inside(&images(), async |node| {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: p, \
                   image: lockstep.test/pause:1, imagePullPolicy: Never}\n";
        let file = node.folder().join("pod.yaml");
        std::fs::write(&file, pod).unwrap();
        let applied = node
            .kubectl(&["apply", "-f", &file.display().to_string()])
            .await
            .unwrap();
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        let wait = ["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"];
        let ready = node.kubectl(&wait).await.unwrap();
        assert_eq!(ready.code, Some(0), "{}\n{}", ready.stderr, node.tails());
        node.signal("kubelet", "KILL").await.unwrap();
        node.restart("kubelet").await.unwrap();
        let folder = node.folder().to_owned();
        let init = node.init().unwrap();
        drop(node);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(cgroups_of(&name), [] as [PathBuf; 0]);
        assert!(!folder.exists());
        until(
            "the end of the node's processes",
            Duration::from_secs(10),
            async || {
                let alive = Path::new(&format!("/proc/{init}")).exists();
                if alive {
                    Err("process 1 is still there".to_owned())
                } else {
                    Ok(())
                }
            },
        )
        .await
        .unwrap();
    });
}
