//! `lockstep crd`

use clap::Args;

use super::{Failure, output};
use crate::crd;

/// Print the custom resource definitions as YAML
#[derive(Args, Debug)]
#[command(after_help = "Example: lockstep crd | kubectl apply --server-side -f -")]
pub(super) struct Flags {}

// === impl Flags ===

impl Flags {
    #[expect(clippy::unused_self, reason = "like every command's")]
    pub(super) fn run(&self) -> Result<(), Failure> {
        output::write(&crd::print_all())
    }
}
