//! The Dockerfile makes the image that `make images` makes: there is no engine here to build it with,
//! so the two are compared by what they say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where it is surprised"
)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockstep_e2e::cluster;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(repository().join(file)).unwrap()
}

/// An instruction and what follows it.
type Instruction = (String, String);

/// The stages of a Dockerfile, each with its instructions in order.
fn stages(text: &str) -> Vec<Vec<Instruction>> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    let mut stages: Vec<Vec<Instruction>> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap();
        if word == "FROM" {
            stages.push(Vec::new());
        }
        let instruction = (word.to_owned(), rest.trim().to_owned());
        stages.last_mut().unwrap().push(instruction);
    }
    stages
}

fn all<'a>(stage: &'a [Instruction], word: &str) -> Vec<&'a str> {
    let of = stage.iter().filter(|(known, _)| known == word);
    of.map(|(_, rest)| rest.as_str()).collect()
}

/// What a stage copies from the context into its own folder: source and destination.
fn copies(stage: &[Instruction]) -> Vec<(String, String)> {
    let mut copies = Vec::new();
    for rest in all(stage, "COPY") {
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        let to = words.pop().unwrap();
        for from in words {
            let to = if to == "./" { from } else { to };
            copies.push((from.to_owned(), to.to_owned()));
        }
    }
    copies
}

/// The files of an archive by name.
fn archive(bytes: &[u8]) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(name, (content, entry.header().mode().unwrap()));
    }
    files
}

/// The configuration and the layer of an image's archive.
fn image(file: &Path) -> (Value, BTreeMap<String, (Vec<u8>, u32)>) {
    let files = archive(&std::fs::read(file).unwrap());
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let name = format!("blobs/{}", digest.replace(':', "/"));
        files[&name].0.clone()
    };
    let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let index = json(&files["index.json"].0);
    let manifest = json(&blob(&index["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    (config, archive(&blob(&manifest["layers"][0])))
}

#[test]
fn the_dockerfile_and_make_images_make_the_same_image() {
    let file = repository().join("target/images/lockstep.tar");
    if !file.is_file() && cluster::unavailable().is_some() {
        cluster::skip("`make images` has not been run");
        return;
    }
    let (config, layer) = image(&file);
    let stages = stages(&read("Dockerfile"));
    let [build, last] = stages.as_slice() else {
        panic!("{} stages", stages.len());
    };
    let entrypoint: Value = serde_json::from_str(all(last, "ENTRYPOINT")[0]).unwrap();
    assert_eq!(entrypoint, config["config"]["Entrypoint"]);
    assert_eq!(
        all(last, "USER"),
        [config["config"]["User"].as_str().unwrap()]
    );
    assert_eq!(
        all(last, "WORKDIR"),
        [config["config"]["WorkingDir"].as_str().unwrap()]
    );
    let environment = serde_json::json!(all(last, "ENV"));
    assert_eq!(environment, config["config"]["Env"]);
    assert!(config["config"]["Cmd"].is_null() && all(last, "CMD").is_empty());
    // Nothing but the program, and a folder for what is temporary.
    assert_eq!(all(last, "FROM"), ["scratch"]);
    assert_eq!(all(last, "COPY"), ["--from=build /image /"]);
    assert!(layer.contains_key("lockstep"), "{:?}", layer.keys());
    let (_, mode) = &layer["tmp/"];
    let makes = all(build, "RUN").join("\n");
    assert!(*mode == 0o1777 && makes.contains("chmod 1777 /image/tmp"));
    // The program needs no libraries.
    assert!(
        !layer.keys().any(|name| name.contains(".so")),
        "{:?}",
        layer.keys()
    );
}

#[test]
fn the_dockerfile_and_make_images_build_the_same_program() {
    let makefile = read("Makefile");
    let images = makefile.split("\nimages:").nth(1).unwrap();
    let images = images.split("\n\n").next().unwrap();
    let stages = stages(&read("Dockerfile"));
    let flags = all(&stages[0], "ENV")[0];
    let flags = flags.strip_prefix("RUSTFLAGS=").unwrap().trim_matches('"');
    assert!(images.contains(&format!("RUSTFLAGS='{flags}'")), "{images}");
    let builds = all(&stages[0], "RUN").join("\n");
    for words in ["--locked", "--bin lockstep", "--profile image", "--target "] {
        assert!(images.contains(words), "{words}: {images}");
        assert!(builds.contains(words), "{words}: {builds}");
    }
    // The chart says the same user.
    let user = all(&stages[1], "USER")[0].split(':').next().unwrap();
    let deployment = read("charts/lockstep/templates/deployment.yaml");
    assert!(deployment.contains(&format!("runAsUser: {user}\n")));
}

#[test]
fn the_engine_gets_what_is_copied_and_nothing_else() {
    let stages = stages(&read("Dockerfile"));
    let ignore = read(".dockerignore");
    let lines: Vec<&str> = ignore
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines[0], "*");
    let mut sent: Vec<&str> = lines[1..].iter().map(|line| &line[1..]).collect();
    let all = copies(&stages[0]);
    let mut copied: Vec<&str> = all.iter().map(|(from, _)| from.as_str()).collect();
    sent.sort_unstable();
    copied.sort_unstable();
    assert_eq!(sent, copied);
}

/// Cargo finds a whole workspace in what is copied, as the lock file has it.
#[test]
fn what_is_copied_is_a_workspace() {
    let stages = stages(&read("Dockerfile"));
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in copies(&stages[0]) {
        let to = folder.path().join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(repository().join(from))
            .arg(to)
            .status();
        assert!(copied.unwrap().success());
    }
    // With what the Dockerfile makes beside it.
    let runs = all(&stages[0], "RUN");
    let makes = runs.into_iter().find(|run| run.contains("lib.rs"));
    let made = Command::new("sh")
        .args(["-c", makes.unwrap()])
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let said = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version=1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let trouble = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{trouble}");
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    let members = found["workspace_members"].as_array().unwrap();
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let named = manifest.lines().find(|line| line.starts_with("members = "));
    let named = named.unwrap().matches(',').count() + 1;
    assert_eq!(members.len(), 1 + named, "{members:?}");
}
