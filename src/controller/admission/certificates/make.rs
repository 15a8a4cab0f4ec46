//! Keys become authorities and certificates. Pure: time and keys come in.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use super::Lifetimes;
use super::plan::seconds;
use super::stored::{Signed, Stored};

/// Clocks of others may be behind by so much.
const SKEW: i64 = 300;

/// Fresh keys.
pub(super) struct Keys {
    pub(super) authority: KeyPair,
    pub(super) leaf: KeyPair,
}

// === impl Keys ===

impl Keys {
    pub(super) fn generate() -> Result<Self, rcgen::Error> {
        Ok(Self {
            authority: KeyPair::generate()?,
            leaf: KeyPair::generate()?,
        })
    }
}

/// An authority and a certificate; what was trusted before stays so.
pub(super) fn all(
    hosts: &[String],
    (lifetimes, now): (Lifetimes, i64),
    keys: &Keys,
    before: Option<&Stored>,
) -> Result<Stored, rcgen::Error> {
    let authority = authority(&keys.authority, (lifetimes, now))?;
    let leaf = leaf(&authority, hosts, (lifetimes, now), &keys.leaf)?;
    Ok(Stored {
        authority,
        next: None,
        previous: before.map(|before| before.authority.certificate.clone()),
        leaf,
        hosts: hosts.to_vec(),
    })
}

/// An authority that is to be announced.
pub(super) fn announced(
    before: Stored,
    at: (Lifetimes, i64),
    keys: &Keys,
) -> Result<Stored, rcgen::Error> {
    let next = Some(authority(&keys.authority, at)?);
    Ok(Stored { next, ..before })
}

/// The announced authority signs; the one before stays trusted.
pub(super) fn succeeded(
    before: Stored,
    hosts: &[String],
    at: (Lifetimes, i64),
    keys: &Keys,
) -> Result<Stored, rcgen::Error> {
    let previous = before.authority.certificate.clone();
    let Some(next) = before.next.clone() else {
        return renewed(before, hosts, at, keys);
    };
    let handed_over = Stored {
        authority: next,
        next: None,
        previous: Some(previous),
        ..before
    };
    renewed(handed_over, hosts, at, keys)
}

/// A new certificate of the same authority.
pub(super) fn renewed(
    before: Stored,
    hosts: &[String],
    at: (Lifetimes, i64),
    keys: &Keys,
) -> Result<Stored, rcgen::Error> {
    let leaf = leaf(&before.authority, hosts, at, &keys.leaf)?;
    let hosts = hosts.to_vec();
    Ok(Stored {
        leaf,
        hosts,
        ..before
    })
}

fn authority(key: &KeyPair, (lifetimes, now): (Lifetimes, i64)) -> Result<Signed, rcgen::Error> {
    let until = now + seconds(lifetimes.authority);
    let certificate = of_an_authority(now, until)?.self_signed(key)?;
    Ok(Signed {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        from: now,
        until,
    })
}

/// An authority's certificate but for its key; the same again for the same times.
fn of_an_authority(from: i64, until: i64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let name = format!("Lockstep webhook authority {from}");
    params.distinguished_name.push(DnType::CommonName, name);
    lasting(&mut params, from, until);
    Ok(params)
}

fn leaf(
    authority: &Signed,
    hosts: &[String],
    (lifetimes, now): (Lifetimes, i64),
    key: &KeyPair,
) -> Result<Signed, rcgen::Error> {
    let until = authority.until.min(now + seconds(lifetimes.leaf));
    let mut params = CertificateParams::new(hosts.to_vec())?;
    let name = hosts.first().map_or("lockstep-webhook", String::as_str);
    // A common name has at most 64 characters; nobody reads it.
    let name: String = name.chars().take(64).collect();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    lasting(&mut params, now, until);
    let signing = KeyPair::from_pem(&authority.key)?;
    let issuer = Issuer::new(of_an_authority(authority.from, authority.until)?, signing);
    Ok(Signed {
        certificate: params.signed_by(key, &issuer)?.pem(),
        key: key.serialize_pem(),
        from: now,
        until,
    })
}

fn lasting(params: &mut CertificateParams, from: i64, until: i64) {
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |seconds: i64| epoch + Duration::from_secs(seconds.try_into().unwrap_or_default());
    params.not_before = at(from - SKEW);
    params.not_after = at(until);
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (Lifetimes, i64) = (
        Lifetimes {
            authority: Duration::from_secs(1000),
            leaf: Duration::from_secs(900),
            announcement: Duration::from_secs(1),
            look: Duration::from_secs(1),
        },
        1_800_000_000,
    );

    fn hosts() -> Vec<String> {
        vec![
            "lockstep-webhook.lockstep.svc".to_owned(),
            "127.0.0.1".to_owned(),
        ]
    }

    #[test]
    fn a_succession_keeps_the_old_authority_trusted() {
        let first = all(&hosts(), AT, &Keys::generate().unwrap(), None).unwrap();
        let keys = Keys::generate().unwrap();
        let announced = announced(first.clone(), AT, &keys).unwrap();
        assert_eq!(announced.leaf, first.leaf, "nothing is signed with it yet");
        let next = announced.next.clone().unwrap();
        assert!(announced.bundle().contains(&next.certificate));
        let after = succeeded(announced, &hosts(), AT, &Keys::generate().unwrap()).unwrap();
        assert_eq!(after.authority, next);
        assert!(after.bundle().contains(&first.authority.certificate));
        assert_ne!(after.leaf, first.leaf);
    }

    #[test]
    fn a_certificate_does_not_outlive_its_authority() {
        let first = all(&hosts(), AT, &Keys::generate().unwrap(), None).unwrap();
        let late = (AT.0, AT.1 + 500);
        let renewed = renewed(first, &hosts(), late, &Keys::generate().unwrap()).unwrap();
        assert_eq!(renewed.leaf.until, AT.1 + 1000);
    }
}
