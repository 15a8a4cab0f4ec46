//! What is wrong with a call: one value, told as HTTP or as a gRPC status.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use prost::Message;

use super::limits;
use crate::wire::json::{self, JsonError};
use crate::wire::proto;
use crate::worker::CallError;

/// The kinds of problems: a closed set of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    SessionConflict,
    TooLarge,
    TooManyConnections,
    NotJoined,
    Draining,
    Unavailable,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) hint: String,
    pub(super) field: Option<String>,
}

/// What gRPC clients of all languages look for in a status' details (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

// === impl Code ===

impl Code {
    fn word(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::Timeout => "timeout",
            Self::SessionConflict => "session-conflict",
            Self::TooLarge => "too-large",
            Self::TooManyConnections => "too-many-connections",
            Self::NotJoined => "not-joined",
            Self::Draining => "draining",
            Self::Unavailable => "unavailable",
        }
    }

    fn http(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::SessionConflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyConnections | Self::NotJoined | Self::Draining | Self::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn grpc(self) -> tonic::Code {
        match self {
            Self::BadRequest => tonic::Code::InvalidArgument,
            Self::NotFound | Self::MethodNotAllowed => tonic::Code::Unimplemented,
            Self::Timeout => tonic::Code::DeadlineExceeded,
            Self::SessionConflict => tonic::Code::Aborted,
            Self::TooLarge => tonic::Code::ResourceExhausted,
            Self::TooManyConnections | Self::NotJoined | Self::Draining | Self::Unavailable => {
                tonic::Code::Unavailable
            }
        }
    }

    /// When to try again; none where the same call would end the same way.
    fn retry_after(self) -> Option<Duration> {
        match self {
            Self::TooManyConnections | Self::NotJoined | Self::Draining | Self::Unavailable => {
                Some(limits::RETRY_AFTER)
            }
            Self::BadRequest
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Timeout
            | Self::SessionConflict
            | Self::TooLarge => None,
        }
    }
}

// === impl Problem ===

impl Problem {
    /// This field is to blame.
    pub(super) fn field(field: impl Into<String>, sentence: &str) -> Self {
        let field = field.into();
        Self {
            code: Code::BadRequest,
            message: format!("{field} {sentence}"),
            hint: "correct the field and send the request again".to_owned(),
            field: Some(field),
        }
    }

    /// The body is larger than the socket takes.
    pub(super) fn body_too_large() -> Self {
        Self {
            code: Code::TooLarge,
            message: format!("the body is larger than {} bytes", limits::MAX_BODY),
            hint: "send less at a time".to_owned(),
            field: None,
        }
    }

    /// A problem without a field.
    pub(super) fn new(code: Code, message: impl Into<String>, hint: &str) -> Self {
        Self {
            code,
            message: message.into(),
            hint: hint.to_owned(),
            field: None,
        }
    }

    fn detail(&self) -> proto::ErrorDetail {
        proto::ErrorDetail {
            code: self.code.word().to_owned(),
            message: self.message.clone(),
            hint: self.hint.clone(),
            field: self.field.clone().unwrap_or_default(),
            retry_after: self
                .code
                .retry_after()
                .and_then(|wait| wait.try_into().ok()),
        }
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let hint = error.hint().to_owned();
        let (code, field) = match &error {
            CallError::NotJoined { .. } => (Code::NotJoined, None),
            CallError::Draining => (Code::Draining, None),
            CallError::SessionConflict { .. } => (Code::SessionConflict, None),
            CallError::BadRequest { field, .. } => (Code::BadRequest, Some((*field).to_owned())),
            CallError::TooLarge { .. } => (Code::TooLarge, None),
            CallError::Unavailable { .. } => (Code::Unavailable, None),
        };
        Self {
            code,
            message: error.to_string(),
            hint,
            field,
        }
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        Self::field(error.field, &error.sentence)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json::problem(&self.detail());
        let json = HeaderValue::from_static("application/problem+json");
        let mut response = (self.code.http(), [(CONTENT_TYPE, json)], body).into_response();
        if let Some(wait) = self.code.retry_after() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        response
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> Self {
        let detail = prost_types::Any {
            type_url: "type.googleapis.com/lockstep.worker.v1.ErrorDetail".to_owned(),
            value: problem.detail().encode_to_vec(),
        };
        let code = problem.code.grpc();
        let status = RpcStatus {
            code: code.into(),
            message: problem.message.clone(),
            details: vec![detail],
        };
        Self::with_details(code, problem.message, status.encode_to_vec().into())
    }
}
