//! What examples and documents show is what an API server takes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lockstep::crd::{ValidGroup, read_groups};
use serde_json::Value;

use super::stage::Stage;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

/// Whole manifests, each with where it stands: `examples/**/*.yaml`, and blocks of documents.
fn shown() -> Vec<(String, String)> {
    let root = repository();
    let mut examples = Vec::new();
    files(&root.join("examples"), "yaml", &mut examples);
    let mut documents = vec![root.join("README.md")];
    files(&root.join("docs"), "md", &mut documents);
    let read = |path: &PathBuf| {
        (
            path.display().to_string(),
            std::fs::read_to_string(path).unwrap(),
        )
    };
    let blocks = documents.iter().map(read).flat_map(|(name, text)| {
        let blocks = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|b| b.split("```").next());
        blocks
            .map(|block| (name.clone(), block.to_owned()))
            .collect::<Vec<_>>()
    });
    let all = examples.iter().map(read).chain(blocks);
    // A part of a manifest, or values of a chart, are no manifests.
    all.filter(|(_, text)| text.lines().any(|l| l.starts_with("apiVersion:")))
        .collect()
}

fn namespaces(text: &str) -> Vec<String> {
    let after = text.split("namespace: ").skip(1);
    let names = after.filter_map(|rest| {
        rest.split([' ', ',', '}', '\n', '"'])
            .find(|w| !w.is_empty())
    });
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn manifests_shown_to_users_are_accepted() {
    let stage = Stage::start().await;
    let shown = shown();
    assert!(shown.len() > 3, "the manifests were not found");
    let mut trouble = Vec::new();
    for (name, text) in shown {
        for namespace in namespaces(&text) {
            // It may be there already.
            drop(stage.kubectl(&["create", "namespace", &namespace]).await);
        }
        let file = stage.server.folder().join("shown.yaml");
        std::fs::write(&file, &text).unwrap();
        let file = file.display().to_string();
        let apply = [
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            &file,
        ];
        if let Err(error) = stage.kubectl(&apply).await {
            trouble.push(format!("{name}:\n{error}\n{text}"));
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
}

/// What a workload asks the webhook for, as its pods will say it.
const LABEL: &str = "/spec/template/metadata/labels/lockstep.dev~1consumer-group";

/// The examples for Kubernetes: their names, and their text.
fn of_kubernetes() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(
        &repository().join("examples/kubernetes"),
        "yaml",
        &mut found,
    );
    found.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    found.into_iter().map(read).collect()
}

/// The groups of a manifest, checked as Lockstep itself checks them.
fn groups(name: &str, text: &str) -> Vec<ValidGroup> {
    let documents = text.split("---\n");
    let groups: Vec<&str> = documents
        .filter(|document| document.contains("kind: ConsumerGroup\n"))
        .collect();
    read_groups(name, &groups.join("---\n")).unwrap()
}

#[tokio::test]
async fn examples_for_kubernetes_are_whole() {
    let stage = Stage::start().await;
    let mut trouble = Vec::new();
    let mut kinds = BTreeSet::new();
    let examples = of_kubernetes();
    for (name, text) in &examples {
        // Stored, not only looked at: what is applied together has to stand together.
        let file = stage.server.folder().join(name);
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let apply = ["apply", "--validate=strict", "-o", "json", "-f", &file];
        let applied = stage.kubectl(&apply).await.unwrap();
        let applied: Value = serde_json::from_str(&applied).unwrap();
        let objects = applied["items"].as_array().unwrap();
        let members: Vec<_> = objects.iter().filter_map(|o| o.pointer(LABEL)).collect();
        let groups: Vec<String> = groups(name, text)
            .iter()
            .map(|group| group.group.name.to_string())
            .collect();
        if members.is_empty() || !members.iter().all(|m| groups.iter().any(|g| *m == g)) {
            trouble.push(format!("{name}: members of {members:?}, groups {groups:?}"));
        }
        for object in objects {
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
            let target = &object["spec"]["scaleTargetRef"];
            let is_it =
                |o: &Value| o["kind"] == target["kind"] && o["metadata"]["name"] == target["name"];
            if !target.is_null() && !objects.iter().any(is_it) {
                trouble.push(format!("{name}: {target} is not in the file"));
            }
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
    // All that is called by the name `default` is there when all are applied.
    stage.kubectl(&["get", "nconn", "default"]).await.unwrap();
    for kind in ["Deployment", "StatefulSet", "Job"] {
        assert!(kinds.contains(kind), "no example has a {kind}: {kinds:?}");
    }
}

#[test]
fn users_are_told_of_every_example() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let told = read("README.md") + &read("docs/kubernetes.md");
    let link = |name: &str| format!("examples/kubernetes/{name})");
    let untold: Vec<String> = of_kubernetes()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !told.contains(&link(name)))
        .collect();
    assert!(untold.is_empty(), "neither README nor docs link {untold:?}");
}
