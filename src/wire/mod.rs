//! Documents of the bucket as bytes, and back.
//!
//! Every document is a JSON object with a `format` number. Fields that this version does not know
//! are kept and written back; a format that it does not know is refused by name. `golden/` holds
//! one file per document and format: never edited, and still decoded by every later version.

#[macro_use]
mod document;
mod group_document;
pub mod json;
pub mod keys;
pub mod proto;

pub use document::{DecodeError, EncodeError};

/// The `meta` document.
pub mod meta {
    document_codec!(
        "meta",
        crate::group::Meta,
        crate::group::Formats::CURRENT.meta
    );
}

/// The `group` document.
pub mod group {
    pub use super::group_document::{decode, encode};
}

/// The `member.<incarnation>` document.
pub mod member {
    document_codec!(
        "member",
        crate::group::MemberDocument,
        crate::group::Formats::CURRENT.member
    );
}

/// The `offset.<p>` document.
pub mod offset {
    document_codec!(
        "offset",
        crate::group::OffsetRecord,
        crate::group::Formats::CURRENT.offset
    );
}

/// The `candidate.<incarnation>` document.
pub mod candidate {
    document_codec!("candidate", crate::group::CandidateDocument, 1);
}

#[cfg(test)]
mod tests;
