//! Addresses, users, keys and certificates: from files and URLs into the client's options.
//!
//! Everything is read once, before anything is tried: a file that cannot be used would otherwise
//! only show itself as an endless series of failed attempts.

use std::path::Path;

use async_nats::{ConnectOptions, ServerAddr};

use super::connect::ConnectError;
use super::options::{Auth, Options};

/// Each entry may hold several, separated by commas.
pub(super) fn addresses(urls: &[String]) -> Result<Vec<ServerAddr>, ConnectError> {
    let all = urls.iter().flat_map(|urls| urls.split(',')).map(str::trim);
    let parsed: Result<Vec<_>, _> = all
        .filter(|url| !url.is_empty())
        .map(|url| {
            url.parse().map_err(|_| ConnectError::BadUrl {
                url: without_password(url),
            })
        })
        .collect();
    match parsed {
        Ok(none) if none.is_empty() => Err(ConnectError::NoUrl),
        Ok(_) | Err(_) => parsed,
    }
}

/// The URL as it may be shown: what stands before an `@` is left out.
fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://...@{host}")
        }
        None => url.to_owned(),
    }
}

/// The user and password, or the token, of the first URL that has one: the client does not use them
/// by itself.
pub(super) fn of_url(made: ConnectOptions, servers: &[ServerAddr]) -> ConnectOptions {
    let named = servers.iter().find_map(|server| {
        let user = server.username().filter(|user| !user.is_empty())?;
        Some((unescaped(user), server.password().map(unescaped)))
    });
    match named {
        Some((user, Some(password))) => made.user_and_password(user, password),
        Some((token, None)) => made.token(token),
        None => made,
    }
}

/// `%40` is `@`, as in every URL.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let digits = hex.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let hex = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let (b'%', Some(escaped)) = (byte, hex) {
            bytes.push(escaped);
            rest = &after[2..];
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn with_auth(made: ConnectOptions, auth: &Auth) -> Result<ConnectOptions, ConnectError> {
    match auth {
        Auth::None => Ok(made),
        Auth::Credentials(path) => {
            let what = "credentials file";
            let text = read(what, path)?;
            made.credentials(&text)
                .map_err(|error| unusable(what, path, error.to_string()))
        }
        Auth::Password { user, file } => {
            let text = read("password file", file)?;
            let password = text.trim_end_matches(['\r', '\n']).to_owned();
            Ok(made.user_and_password(user.clone(), password))
        }
        // A callback of the client replaces all other ways, so it comes first of all.
        Auth::Folder(folder) => {
            let folder = folder.clone();
            Ok(ConnectOptions::with_auth_callback(move |nonce| {
                let answer = folder.answer(&nonce).map_err(async_nats::AuthError::new);
                std::future::ready(answer)
            }))
        }
        Auth::Nkey(path) => {
            let what = "nkey file";
            let text = read(what, path)?;
            let seed = text
                .lines()
                .map(str::trim)
                .find(|line| line.starts_with('S'));
            let seed = seed.ok_or_else(|| {
                let detail = "holds no seed: a line that starts with S is expected";
                unusable(what, path, detail.to_owned())
            })?;
            Ok(made.nkey(seed.to_owned()))
        }
    }
}

pub(super) fn with_tls(
    mut made: ConnectOptions,
    options: &Options,
) -> Result<ConnectOptions, ConnectError> {
    if let Some(ca) = &options.tls.ca {
        pem("certificate authority", ca, "CERTIFICATE")?;
        made = made.add_root_certificates(ca.clone()).require_tls(true);
    }
    if options.tls.handshake_first {
        made = made.tls_first();
    }
    if let Some(client) = &options.tls.client {
        pem("client certificate", &client.cert, "CERTIFICATE")?;
        pem("client key", &client.key, "PRIVATE KEY")?;
        made = made.add_client_certificate(client.cert.clone(), client.key.clone());
    }
    Ok(made)
}

fn read(what: &'static str, path: &Path) -> Result<String, ConnectError> {
    std::fs::read_to_string(path).map_err(|error| unusable(what, path, error.to_string()))
}

/// Looks into the file now: the client reads it at each attempt and would retry for ever.
fn pem(what: &'static str, path: &Path, block: &str) -> Result<(), ConnectError> {
    let text = read(what, path)?;
    if text.contains(&format!("{block}-----")) {
        Ok(())
    } else {
        let detail = format!("holds no PEM block that ends in {block}");
        Err(unusable(what, path, detail))
    }
}

fn unusable(what: &'static str, path: &Path, detail: String) -> ConnectError {
    ConnectError::File {
        what,
        path: path.display().to_string(),
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let error = addresses(&["nats://me:secret@ho st:1".to_owned()]).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn several_servers_may_be_named_in_one_entry() {
        let two = addresses(&["nats://a:1, nats://b:2".to_owned()]).unwrap();
        assert_eq!(two.len(), 2);
        assert!(matches!(
            addresses(&[" ".to_owned()]),
            Err(ConnectError::NoUrl)
        ));
        assert!(matches!(addresses(&[]), Err(ConnectError::NoUrl)));
    }

    #[test]
    fn what_is_escaped_in_a_url_is_unescaped() {
        assert_eq!(unescaped("p%40ss%2Fw%C3%B6rd"), "p@ss/wörd");
        assert_eq!(unescaped("100%"), "100%");
        assert_eq!(unescaped("%zz%+4%4"), "%zz%+4%4");
    }

    #[test]
    fn a_missing_file_is_named_with_its_purpose() {
        let auth = Auth::Nkey("/nowhere/seed".into());
        let error = with_auth(ConnectOptions::new(), &auth).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nkey file") && text.contains("/nowhere/seed"),
            "{text}"
        );
    }
}
