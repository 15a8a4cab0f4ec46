//! From Secrets that a `NatsConnection` names to files of the folder that its connection watches.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;

use crate::crd::{NatsConnectionSpec, SecretRef};
use crate::k8s::{self, K8sError};

/// File name to content.
pub(super) type Files = BTreeMap<&'static str, Vec<u8>>;

/// Why the credentials are not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretError {
    #[error("Secret {secret} does not exist in namespace {namespace}; make it")]
    Missing { namespace: String, secret: String },
    #[error(
        "Secret {secret} in namespace {namespace} has no key {key:?}; add it, or name another key"
    )]
    NoKey {
        namespace: String,
        secret: String,
        key: String,
    },
    #[error("Secret {0}")]
    Api(#[from] K8sError),
}

/// One file that a Secret gives.
struct Wanted<'a> {
    file: &'static str,
    secret: &'a SecretRef,
    key: &'a str,
}

/// What the connection's Secrets hold, by the files' names.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    spec: &NatsConnectionSpec,
) -> Result<Files, SecretError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut known: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    let mut files = Files::new();
    for Wanted { file, secret, key } in wanted(spec) {
        let name = secret.name.as_str();
        if !known.contains_key(name) {
            let found = k8s::get_opt(&api, name).await?;
            let found = found.ok_or_else(|| SecretError::Missing {
                namespace: namespace.to_owned(),
                secret: name.to_owned(),
            })?;
            let data = found.data.unwrap_or_default();
            let data = data
                .into_iter()
                .map(|(key, value)| (key, value.0))
                .collect();
            known.insert(name.to_owned(), data);
        }
        let value = known.get(name).and_then(|data| data.get(key));
        let value = value.ok_or_else(|| SecretError::NoKey {
            namespace: namespace.to_owned(),
            secret: name.to_owned(),
            key: key.to_owned(),
        })?;
        files.insert(file, value.clone());
    }
    Ok(files)
}

/// Which Secret gives which file: the key is the file's name unless another one is given, which is
/// for Secrets that give one file.
fn wanted(spec: &NatsConnectionSpec) -> Vec<Wanted<'_>> {
    let (auth, tls) = (spec.auth.as_ref(), spec.tls.as_ref());
    let user = auth.and_then(|a| a.user_password.as_ref());
    let client = tls.and_then(|t| t.client_cert_secret_ref.as_ref());
    let given = [
        ("user.creds", auth.and_then(|a| a.creds.as_ref()), true),
        ("nkey.seed", auth.and_then(|a| a.nkey.as_ref()), true),
        ("token", auth.and_then(|a| a.token.as_ref()), true),
        ("username", user, false),
        ("password", user, false),
        ("ca.crt", tls.and_then(|t| t.ca_secret_ref.as_ref()), true),
        ("tls.crt", client, false),
        ("tls.key", client, false),
    ];
    let wanted = given.into_iter().filter_map(|(file, secret, one)| {
        let secret = secret?;
        let key = secret.key.as_deref().filter(|_| one).unwrap_or(file);
        Some(Wanted { file, secret, key })
    });
    wanted.collect()
}

/// Writes the files into a folder that only this user can read; what is no longer wanted goes.
pub(super) fn write(folder: &Path, files: &Files) -> std::io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !files.contains_key(entry.file_name().to_string_lossy().as_ref()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    for (name, content) in files {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == *content) {
            continue;
        }
        // Written aside and renamed: a reader sees the old or the new, never half.
        let aside = folder.join(format!(".{name}"));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        file.write_all(content)?;
        std::fs::rename(&aside, &path)?;
    }
    Ok(())
}
