//! Credentials in a folder, as Kubernetes mounts a Secret: read anew at each attempt to connect, and
//! watched, so that new ones are used without a restart.
//!
//! | file | what |
//! |---|---|
//! | `user.creds` | a credentials file: JWT and seed |
//! | `nkey.seed` | an nkey seed |
//! | `username`, `password` | a user |
//! | `token` | a token |
//! | `ca.crt` | the authority that signed the servers' certificates |
//! | `tls.crt`, `tls.key` | the client's certificate |
//! | `servers` | addresses that replace those given otherwise |
//!
//! Of the ways to identify oneself the first that is there is used. A folder that is empty or not
//! there is no error: it may be filled later.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::options::{ClientCertificate, Tls};

/// All that is looked for.
const FILES: [&str; 9] = [
    "user.creds",
    "nkey.seed",
    "username",
    "password",
    "token",
    "ca.crt",
    "tls.crt",
    "tls.key",
    "servers",
];

/// A folder with credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFolder(PathBuf);

// === impl SecretFolder ===

impl SecretFolder {
    /// The folder at this path, there or not.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The addresses that it names, if it does.
    pub fn servers(&self) -> Option<Vec<String>> {
        let text = self.read("servers")?;
        let servers = text.split([',', '\n']).map(str::trim);
        let servers: Vec<String> = servers.filter(|s| !s.is_empty()).map(Into::into).collect();
        (!servers.is_empty()).then_some(servers)
    }

    /// The certificates that are in it now.
    pub fn tls(&self) -> Tls {
        let (cert, key) = (self.0.join("tls.crt"), self.0.join("tls.key"));
        Tls {
            ca: Some(self.0.join("ca.crt")).filter(|path| path.is_file()),
            client: (cert.is_file() && key.is_file()).then_some(ClientCertificate { cert, key }),
            handshake_first: false,
        }
    }

    /// Changes with the content.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for name in FILES {
            std::fs::read(self.0.join(name)).ok().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What is answered to a server's challenge.
    pub(super) fn answer(&self, nonce: &[u8]) -> Result<async_nats::Auth, String> {
        let mut auth = async_nats::Auth::new();
        if let Some(text) = self.read("user.creds") {
            let (jwt, seed) = jwt_and_seed(&text).ok_or_else(|| {
                self.complain(
                    "user.creds",
                    "holds no JWT with a seed, as `nsc generate creds` writes",
                )
            })?;
            auth.signature = Some(self.sign("user.creds", seed, nonce)?.1);
            auth.jwt = Some(jwt.to_owned());
        } else if let Some(text) = self.read("nkey.seed") {
            let (key, signature) = self.sign("nkey.seed", text.trim(), nonce)?;
            auth.nkey = Some(key);
            auth.signature = Some(signature);
        } else if let Some(user) = self.read("username") {
            auth.username = Some(line(&user));
            auth.password = self.read("password").as_deref().map(line);
        } else if let Some(token) = self.read("token") {
            auth.token = Some(line(&token));
        }
        Ok(auth)
    }

    /// The public key of a seed, and the challenge signed with it.
    fn sign(&self, file: &str, seed: &str, nonce: &[u8]) -> Result<(String, Vec<u8>), String> {
        let unusable = |error: nkeys::error::Error| self.complain(file, &error.to_string());
        let pair = nkeys::KeyPair::from_seed(seed).map_err(unusable)?;
        let signature = pair.sign(nonce).map_err(unusable)?;
        Ok((pair.public_key(), signature))
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(name)).ok()
    }

    fn complain(&self, file: &str, why: &str) -> String {
        format!("{}: {why}", self.0.join(file).display())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Without the line break at its end, which editors add.
fn line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).to_owned()
}

/// The first block of a credentials file is the JWT, the second the seed.
fn jwt_and_seed(text: &str) -> Option<(&str, &str)> {
    let lines = text.lines().map(str::trim);
    let mut content = lines.filter(|line| !line.is_empty() && !line.starts_with('-'));
    let jwt = content.find(|line| line.starts_with("ey"))?;
    let seed = content.find(|line| line.starts_with('S') && line.len() > 50)?;
    Some((jwt, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, SecretFolder) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let folder = SecretFolder::new(dir.path());
        (dir, folder)
    }

    #[test]
    fn a_user_has_no_line_break_at_its_end() {
        let (_dir, folder) = folder(&[("username", "me\n"), ("password", "secret\r\n")]);
        let auth = folder.answer(b"nonce").unwrap();
        assert_eq!(auth.username.as_deref(), Some("me"));
        assert_eq!(auth.password.as_deref(), Some("secret"));
    }

    #[test]
    fn an_nkey_signs_the_challenge() {
        let pair = nkeys::KeyPair::new_user();
        let seed = pair.seed().unwrap();
        let (_dir, folder) = folder(&[("nkey.seed", &format!("{seed}\n"))]);
        let auth = folder.answer(b"nonce").unwrap();
        assert_eq!(auth.nkey, Some(pair.public_key()));
        pair.verify(b"nonce", &auth.signature.unwrap()).unwrap();
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let (_dir, folder) = folder(&[("user.creds", "nothing of use")]);
        let why = folder.answer(b"nonce").err().unwrap();
        assert!(why.contains("user.creds") && why.contains("JWT"), "{why}");
    }

    #[test]
    fn an_empty_folder_is_no_error_and_a_change_is_seen() {
        let (dir, folder) = folder(&[]);
        assert_eq!(folder.answer(b"nonce").unwrap().username, None);
        assert_eq!((folder.servers(), folder.tls()), (None, Tls::default()));
        let before = folder.fingerprint();
        std::fs::write(dir.path().join("servers"), "nats://a:1,\nnats://b:2\n").unwrap();
        assert_ne!(folder.fingerprint(), before);
        assert_eq!(folder.servers().unwrap(), ["nats://a:1", "nats://b:2"]);
    }
}
