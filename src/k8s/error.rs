//! What the API server did not do, and what that calls for.

use std::fmt;

use kube::core::Status;

/// A request to the API server that did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {detail}")]
pub struct K8sError {
    /// What was asked about.
    what: String,
    /// Its class.
    kind: ErrorKind,
    /// The API server's words.
    detail: String,
}

/// Classes of errors, by what a caller does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The object is not there.
    NotFound,
    /// Somebody else changed it, or owns the field.
    Conflict,
    /// It is there already.
    AlreadyExists,
    /// The role of this process does not allow it.
    Forbidden,
    /// The API server refuses the object.
    Invalid,
    /// The API server asks for fewer requests.
    TooManyRequests,
    /// The API server did not answer.
    Unreachable,
    /// This process cannot be configured.
    Configuration,
    /// Anything else.
    Other,
}

/// What an error calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Trying again later.
    Retry,
    /// Reading the newest state, and deciding anew.
    Observe,
    /// A person.
    AskOperator,
}

// === impl K8sError ===

impl K8sError {
    /// What the client says of a request about `what`.
    pub fn of(what: impl fmt::Display, error: &kube::Error) -> Self {
        let (kind, detail) = if let kube::Error::Api(status) = error {
            (kind_of(status), status.message.clone())
        } else {
            (unanswered(error), chain(error))
        };
        let what = what.to_string();
        Self { what, kind, detail }
    }

    /// No cluster is configured.
    pub(super) fn configuration(error: &dyn std::error::Error) -> Self {
        Self {
            what: "no Kubernetes cluster is configured; run inside one, or set KUBECONFIG".into(),
            kind: ErrorKind::Configuration,
            detail: chain(error),
        }
    }

    /// Nobody answered a request about `what`.
    pub(super) fn unanswered(what: impl fmt::Display, waited: std::time::Duration) -> Self {
        Self {
            what: what.to_string(),
            kind: ErrorKind::Unreachable,
            detail: format!("the API server does not answer within {waited:?}"),
        }
    }

    /// Its class.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The API server's words alone.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What it calls for.
    pub fn remedy(&self) -> Remedy {
        match self.kind {
            ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::AlreadyExists => Remedy::Observe,
            ErrorKind::TooManyRequests | ErrorKind::Unreachable | ErrorKind::Other => Remedy::Retry,
            ErrorKind::Forbidden | ErrorKind::Invalid | ErrorKind::Configuration => {
                Remedy::AskOperator
            }
        }
    }
}

fn kind_of(status: &Status) -> ErrorKind {
    match status.code {
        404 => ErrorKind::NotFound,
        409 if status.is_already_exists() => ErrorKind::AlreadyExists,
        409 => ErrorKind::Conflict,
        401 | 403 => ErrorKind::Forbidden,
        400 | 413 | 422 => ErrorKind::Invalid,
        429 => ErrorKind::TooManyRequests,
        502..=504 => ErrorKind::Unreachable,
        _ => ErrorKind::Other,
    }
}

fn unanswered(error: &kube::Error) -> ErrorKind {
    if matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_)) {
        ErrorKind::Unreachable
    } else {
        ErrorKind::Other
    }
}

/// An error and its sources, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str) -> K8sError {
        let status = Status::failure("said the server", reason).with_code(code);
        K8sError::of(
            "ConsumerGroup shop/orders",
            &kube::Error::Api(status.boxed()),
        )
    }

    #[test]
    fn an_error_names_its_object_and_the_servers_words() {
        let error = answered(403, "Forbidden");
        assert_eq!(
            error.to_string(),
            "ConsumerGroup shop/orders: said the server"
        );
        assert_eq!(error.remedy(), Remedy::AskOperator);
    }

    #[test]
    fn a_conflict_is_told_from_an_object_that_exists() {
        assert_eq!(answered(409, "Conflict").kind(), ErrorKind::Conflict);
        assert_eq!(
            answered(409, "AlreadyExists").kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(answered(503, "").remedy(), Remedy::Retry);
    }
}
