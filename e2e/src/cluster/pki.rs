//! Keys, certificates and kubeconfigs of a test cluster, made anew for each.

use std::io;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Who may call the API server, by token: name of the token, user, groups.
const USERS: [(&str, &str, &str); 6] = [
    ("admin", "admin", "system:masters"),
    ("kcm", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("kubelet", "system:node:e2e", "system:nodes"),
    ("proxy", "system:kube-proxy", ""),
    ("dns", "dns", "system:masters"),
];

/// Writes the cluster's own CA, the API server's certificate for these names, the keys of
/// `ServiceAccount` tokens, and the tokens of its users, all into `folder`.
pub(super) fn write(folder: &Path, names: &[&str]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let (ca, ca_pem) = authority().map_err(io::Error::other)?;
    std::fs::write(folder.join("ca.crt"), ca_pem)?;
    let (certificate, key) = certificate(&ca, names).map_err(io::Error::other)?;
    std::fs::write(folder.join("apiserver.crt"), certificate)?;
    std::fs::write(folder.join("apiserver.key"), key)?;
    let accounts = KeyPair::generate().map_err(io::Error::other)?;
    std::fs::write(folder.join("sa.key"), accounts.serialize_pem())?;
    std::fs::write(folder.join("sa.pub"), accounts.public_key_pem())?;
    let tokens = USERS
        .iter()
        .enumerate()
        .map(|(uid, (token, user, groups))| format!("{token}-token,{user},{uid},{groups}\n"));
    std::fs::write(folder.join("tokens.csv"), tokens.collect::<String>())
}

/// Writes a kubeconfig for each user of [`write()`]: `<token>.conf`.
pub(super) fn write_kubeconfigs(folder: &Path, server: &str) -> io::Result<()> {
    for (token, ..) in USERS {
        let ca = folder.join("ca.crt");
        let text = format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: u, user: {{token: {token}-token}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            ca.display()
        );
        std::fs::write(folder.join(format!("{token}.conf")), text)?;
    }
    Ok(())
}

fn authority() -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "lockstep-e2e");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((Issuer::new(params, key), certificate.pem()))
}

fn certificate(
    ca: &Issuer<'static, KeyPair>,
    names: &[&str],
) -> Result<(String, String), rcgen::Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
