//! One member: its lease, its claims, its ledgers.

mod answers;
mod claim;
mod claiming;
mod commits;
mod documents;
mod echo;
mod feeding;
mod findings;
mod lease;
mod leaving;
mod ledger;
mod policy;
mod properties;
mod records;
mod releases;
mod saying;
mod scene;
mod window;
