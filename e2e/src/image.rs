//! OCI images without a container engine: files in, an archive out that `ctr images import` reads.
//!
//! One layer, sorted, owned by root, dated 1970: the same files give the same digest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An image in the making.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    files: BTreeMap<String, Content>,
    entrypoint: Vec<String>,
    environment: Vec<String>,
    user: String,
}

#[derive(Clone, Debug)]
enum Content {
    File(PathBuf),
    Link(PathBuf),
    Text(String),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The digest of its manifest.
    pub digest: String,
    /// The bytes of its layer.
    pub size: u64,
}

// === impl Image ===

impl Image {
    /// An empty image with its full name, such as `lockstep.test/app:1`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            files: BTreeMap::new(),
            entrypoint: Vec::new(),
            environment: vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()],
            user: "65532:65532".to_owned(),
        }
    }

    /// What it runs.
    #[must_use]
    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// A small file.
    #[must_use]
    pub fn text(mut self, at: &str, text: &str) -> Self {
        self.files
            .insert(at.to_owned(), Content::Text(text.to_owned()));
        self
    }

    /// A file, under this path.
    #[must_use]
    pub fn file(mut self, from: &Path, at: &str) -> Self {
        self.files
            .insert(at.to_owned(), Content::File(from.to_owned()));
        self
    }

    /// A folder with everything in it, but for folders whose names begin with one of these.
    pub fn folder(mut self, from: &Path, at: &str, without: &[&str]) -> io::Result<Self> {
        let mut waiting = vec![(from.to_owned(), at.to_owned())];
        while let Some((folder, at)) = waiting.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let (path, at) = (entry.path(), format!("{at}/{name}"));
                let kind = entry.file_type()?;
                if kind.is_symlink() {
                    self.files
                        .insert(at, Content::Link(std::fs::read_link(path)?));
                } else if kind.is_file() {
                    self.files.insert(at, Content::File(path));
                } else if kind.is_dir() && !without.iter().any(|prefix| name.starts_with(prefix)) {
                    waiting.push((path, at));
                }
            }
        }
        Ok(self)
    }

    /// The libraries that a dynamic program or library needs, where it looks for them.
    pub fn libraries_of(mut self, program: &Path) -> io::Result<Self> {
        let said = std::process::Command::new("ldd").arg(program).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        for word in said.split_whitespace().filter(|word| word.starts_with('/')) {
            let real = std::fs::canonicalize(word)?;
            self.files.insert(word.to_owned(), Content::File(real));
        }
        Ok(self)
    }

    /// Writes the archive.
    pub fn write(&self, to: &Path) -> io::Result<Written> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": self.environment,
                "Entrypoint": self.entrypoint,
                "User": self.user,
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media("manifest.v1+json"),
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let index = json!({
            "schemaVersion": 2,
            "mediaType": media("index.v1+json"),
            "manifests": [{
                "mediaType": media("manifest.v1+json"),
                "digest": digest(&manifest),
                "size": manifest.len(),
                "platform": { "architecture": "amd64", "os": "linux" },
                "annotations": { "io.containerd.image.name": self.name },
            }],
        });
        let written = Written {
            digest: digest(&manifest),
            size: layer.len() as u64,
        };
        let mut archive = tar::Builder::new(Vec::new());
        append(
            &mut archive,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#,
            0o644,
        )?;
        append(
            &mut archive,
            "index.json",
            index.to_string().as_bytes(),
            0o644,
        )?;
        for blob in [&config, &manifest, &layer] {
            let name = digest(blob).replace(':', "/");
            append(&mut archive, &format!("blobs/{name}"), blob, 0o644)?;
        }
        std::fs::write(to, archive.into_inner()?)?;
        Ok(written)
    }

    fn layer(&self) -> io::Result<Vec<u8>> {
        let mut layer = tar::Builder::new(Vec::new());
        let mut folders = BTreeSet::new();
        for (folder, mode) in [
            ("tmp", 0o1777),
            ("etc", 0o755),
            ("proc", 0o755),
            ("sys", 0o755),
            ("dev", 0o755),
        ] {
            folder_entry(&mut layer, folder, mode)?;
            folders.insert(folder.to_owned());
        }
        for (at, content) in &self.files {
            let at = at.trim_start_matches('/');
            parents(&mut layer, &mut folders, at)?;
            match content {
                Content::Text(text) => append(&mut layer, at, text.as_bytes(), 0o644)?,
                Content::File(path) => {
                    let mode = std::fs::metadata(path)?.permissions().mode();
                    let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
                    append(&mut layer, at, &std::fs::read(path)?, mode)?;
                }
                Content::Link(target) => {
                    let mut header = header(0, 0o777, tar::EntryType::Symlink);
                    layer.append_link(&mut header, at, target)?;
                }
            }
        }
        layer.into_inner()
    }
}

type Archive = tar::Builder<Vec<u8>>;

fn parents(layer: &mut Archive, made: &mut BTreeSet<String>, at: &str) -> io::Result<()> {
    let mut folder = String::new();
    let parts: Vec<&str> = at.split('/').collect();
    for part in &parts[..parts.len() - 1] {
        if !folder.is_empty() {
            folder.push('/');
        }
        folder.push_str(part);
        if made.insert(folder.clone()) {
            folder_entry(layer, &folder, 0o755)?;
        }
    }
    Ok(())
}

fn folder_entry(layer: &mut Archive, at: &str, mode: u32) -> io::Result<()> {
    let mut header = header(0, mode, tar::EntryType::Directory);
    layer.append_data(&mut header, format!("{at}/"), io::empty())
}

fn append(archive: &mut Archive, at: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let mut header = header(content.len() as u64, mode, tar::EntryType::Regular);
    archive.append_data(&mut header, at, content)
}

fn header(size: u64, mode: u32, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_entry_type(kind);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn media(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media(kind), "digest": digest(blob), "size": blob.len() })
}

fn digest(blob: &[u8]) -> String {
    let bytes = Sha256::digest(blob);
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(program: &Path) -> Image {
        let image = Image::new("lockstep.test/x:1").file(program, "/bin/program");
        image
            .text("/etc/motd", "hello")
            .entrypoint(&["/bin/program"])
    }

    #[test]
    fn the_same_files_give_the_same_digest_whenever_and_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::fs::write(&one, "program").unwrap();
        std::fs::write(&other, "program").unwrap();
        let written = image(&one).write(&folder.path().join("one.tar")).unwrap();
        assert_eq!(
            image(&other)
                .write(&folder.path().join("other.tar"))
                .unwrap(),
            written
        );
        std::fs::write(&other, "another").unwrap();
        let changed = image(&other)
            .write(&folder.path().join("other.tar"))
            .unwrap();
        assert_ne!(changed.digest, written.digest);
    }
}
