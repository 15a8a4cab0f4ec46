//! `lockstep completions SHELL`

use clap::Args;
use clap_complete::Shell;

use super::{Failure, command_line, output};

/// Print a shell's completion script
#[derive(Args, Debug)]
#[command(
    after_help = "Example: lockstep completions bash > ~/.local/share/bash-completion/completions/lockstep"
)]
pub(super) struct Flags {
    /// The shell
    shell: Shell,
}

// === impl Flags ===

impl Flags {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command_line(), "lockstep", &mut script);
        output::write(&String::from_utf8_lossy(&script))
    }
}
