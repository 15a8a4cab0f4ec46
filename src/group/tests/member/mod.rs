//! One member: its lease, its claims, its ledgers.

mod answers;
mod claim;
mod documents;
mod feeding;
mod lease;
mod leaving;
mod ledger;
mod policy;
mod properties;
mod records;
mod scene;
