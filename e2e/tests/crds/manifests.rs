//! What examples and documents show is what an API server takes.

use std::path::{Path, PathBuf};

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
