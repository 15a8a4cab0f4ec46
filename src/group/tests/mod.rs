//! The core, told as stories: a transcript per sentence of `docs/protocol.md`, and properties.

mod scene;

mod grants;
mod member;
