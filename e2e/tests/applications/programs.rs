//! The applications of `examples/applications`, built as their readers would build them, in a folder
//! of Cargo's: nothing is left beside the sources.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use lockstep_e2e::scene::{Outcome, SceneError};
use tokio::process::Command;
use tokio::sync::OnceCell;

/// A cold start downloads what the languages' own registries hold.
const BUILT: Duration = Duration::from_secs(300);

/// The words that start an application; none if this machine lacks the language.
pub(crate) type Program = Option<Vec<String>>;

static GO: OnceCell<PathBuf> = OnceCell::const_new();
static NODE: OnceCell<PathBuf> = OnceCell::const_new();

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where an example lies under `root`.
fn example(root: &Path, language: &str) -> PathBuf {
    root.join("examples/applications").join(language)
}

pub(crate) fn python() -> Vec<String> {
    let script = example(&root(), "python").join("app.py");
    words(&["python3", "-u", &script.display().to_string()])
}

pub(crate) async fn go(api: &str) -> Outcome<Program> {
    let program = GO.get_or_try_init(async || {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("applications/app-go");
        let output = program.display().to_string();
        let sources = example(&root(), "go");
        run(&sources, &["go", "build", "-trimpath", "-o", &output, "."]).await?;
        Ok::<_, SceneError>(program)
    });
    let program = program.await?.display().to_string();
    Ok(Some(words(&[&program, "-api", api])))
}

pub(crate) async fn node(api: &str) -> Outcome<Program> {
    if !are_there(&["node", "npm"]).await {
        return Ok(None);
    }
    let folder = NODE.get_or_try_init(async || {
        let copy = copied(
            "node",
            &["clients/node", "examples/applications/node", "proto"],
        )?;
        let folder = example(&copy, "node");
        run(
            &folder,
            &["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        )
        .await?;
        Ok::<_, SceneError>(folder)
    });
    let script = folder.await?.join("app.js").display().to_string();
    Ok(Some(words(&["node", &script, "--api", api])))
}

pub(crate) async fn java() -> Outcome<Program> {
    if !are_there(&["java", "mvn"]).await {
        return Ok(None);
    }
    let copy = copied("java", &["clients/java", "examples/applications/java"])?;
    let folder = example(&copy, "java");
    run(&folder, &["mvn", "-B", "-q", "package"]).await?;
    let jar = folder
        .join("application/target/app.jar")
        .display()
        .to_string();
    Ok(Some(words(&["java", "-jar", &jar])))
}

/// One line that the runner counts. Written past the capture of the test harness.
pub(crate) fn skip(what: &str) -> io::Result<()> {
    writeln!(io::stdout(), "SKIPPED (counted): {what}")
}

/// Runs a command to its end, which has to be good.
pub(crate) async fn run(folder: &Path, command: &[&str]) -> Outcome<()> {
    let mut started = Command::new(command[0]);
    started.args(&command[1..]).current_dir(folder);
    started.stdin(Stdio::null()).kill_on_drop(true);
    let what = format!("`{}` in {}", command.join(" "), folder.display());
    let ended = tokio::time::timeout(BUILT, started.output()).await;
    let output =
        ended.map_err(|_| SceneError::new(format!("{what} did not end in {BUILT:?}")))??;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Err(SceneError::new(format!("{what} failed:\n{said}")))
}

async fn are_there(programs: &[&str]) -> bool {
    for program in programs {
        let mut asked = Command::new(program);
        let asked = asked
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !asked.status().await.is_ok_and(|status| status.success()) {
            return false;
        }
    }
    true
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A copy of these folders, in the same places to each other.
fn copied(name: &str, folders: &[&str]) -> Outcome<PathBuf> {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("applications")
        .join(name);
    for folder in folders {
        copy_folder(&root().join(folder), &copy.join(folder))?;
    }
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let built = ["node_modules", "target"].map(OsStr::new);
        if built.contains(&entry.file_name().as_os_str()) {
            continue; // somebody built by hand, beside the sources
        }
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            std::fs::copy(&path, &to)?;
        }
    }
    Ok(())
}
