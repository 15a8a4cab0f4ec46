//! Free ports that stay free while a server is down between `kill` and `restart`.
//!
//! They come from below the kernel's ephemeral range, so that no outgoing connection can take
//! one in the meantime.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};

/// Linux gives outgoing connections the ports from 32768 on.
const FIRST: u16 = 12_000;
const COUNT: u64 = 20_000;

/// How many ports are tried before giving up: more than a machine has in use here.
const TRIES: u32 = 10_000;

/// A port that nobody listens on now. Somebody else may take it before its user does, who then
/// has to ask again.
pub fn free() -> Option<u16> {
    (0..TRIES)
        .map(|_| draw())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

/// Chance from the standard library's hash seeds; no two draws of a process are the same.
fn draw() -> u16 {
    static DRAWS: AtomicU64 = AtomicU64::new(0);
    let draw = DRAWS.fetch_add(1, Ordering::Relaxed);
    let chance = RandomState::new().hash_one((std::process::id(), draw));
    FIRST + u16::try_from(chance % COUNT).unwrap_or(0)
}
