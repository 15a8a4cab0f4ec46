//! One member: its lease, its claims, its ledgers.

mod answers;
mod claiming;
mod commits;
mod documents;
mod echo;
mod feeding;
mod findings;
mod policy;
mod properties;
mod releases;
mod saying;
mod scene;
mod window;
