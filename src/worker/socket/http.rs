//! The service as JSON over HTTP/1.1.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::StreamExt;
use http_body_util::BodyExt;

use super::calls::Calls;
use super::health::Probes;
use super::problem::{Code, Problem};
use super::watch::watch;
use super::{convert, limits};
use crate::http::{Verdict, Vitals};
use crate::wire::json;
use crate::worker::SessionId;

type Answer = Result<Json, Problem>;

/// A JSON body that is written already.
struct Json(Vec<u8>);

pub(super) fn routes(calls: Calls, probes: Probes) -> Router {
    let probes = Router::new()
        .route("/startupz", get(async || Probes::started()))
        .route("/readyz", get(readyz))
        .route("/healthz", get(healthz))
        .with_state(probes);
    Router::new()
        .route("/v1/fetch", post(fetch))
        .route("/v1/ack", post(ack))
        .route("/v1/nack", post(nack))
        .route("/v1/publish", post(publish))
        .route("/v1/status", get(status))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .route("/v1/events", get(events))
        .route("/v1/drain", post(drain))
        .with_state(calls)
        .merge(probes)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

async fn fetch(State(calls): State<Calls>, headers: HeaderMap, body: Body) -> Answer {
    let session = session(&headers)?;
    let request = json::fetch_request(&whole(body).await?)?;
    let encoding = request.payload_encoding();
    let answer = calls.fetch(&session, &request).await?;
    Ok(Json(json::fetch(&answer, encoding)))
}

async fn ack(State(calls): State<Calls>, headers: HeaderMap, body: Body) -> Answer {
    let session = session(&headers)?;
    let request = json::ack_request(&whole(body).await?)?;
    Ok(Json(json::ack(&calls.ack(&session, &request).await?)))
}

async fn nack(State(calls): State<Calls>, headers: HeaderMap, body: Body) -> Answer {
    let session = session(&headers)?;
    let request = json::nack_request(&whole(body).await?)?;
    Ok(Json(json::nack(&calls.nack(&session, request).await?)))
}

async fn publish(State(calls): State<Calls>, body: Body) -> Answer {
    let request = json::publish_request(&whole(body).await?)?;
    Ok(Json(json::publish(&calls.publish(request).await?)))
}

async fn status(State(calls): State<Calls>) -> Answer {
    Ok(Json(json::status(&calls.status().await?)))
}

async fn pause(State(calls): State<Calls>, body: Body) -> Answer {
    let request = json::pause_request(&whole(body).await?)?;
    calls.pause(&request).await?;
    Ok(Json(json::nothing()))
}

async fn resume(State(calls): State<Calls>, body: Body) -> Answer {
    let request = json::resume_request(&whole(body).await?)?;
    calls.resume(&request).await?;
    Ok(Json(json::nothing()))
}

async fn drain(State(calls): State<Calls>, body: Body) -> Answer {
    let request = json::drain_request(&whole(body).await?)?;
    Ok(Json(json::drain(&calls.drain(&request).await?)))
}

async fn events(State(calls): State<Calls>) -> Response {
    let events = watch(&calls).map(|seen| {
        let (name, body) = json::event(&seen);
        Ok::<_, Infallible>(Event::default().event(name).data(body))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

async fn readyz(State(probes): State<Probes>) -> Verdict {
    probes.ready()
}

async fn healthz(State(probes): State<Probes>) -> Verdict {
    probes.healthy()
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(
        Code::NotFound,
        format!("there is nothing at {}", uri.path()),
        "the paths are POST /v1/fetch, ack, nack, publish, pause, resume, drain and GET \
         /v1/status, /v1/events, /healthz, /readyz, /startupz",
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!("{} does not take {method}", uri.path()),
        "use POST for calls, and GET for /v1/status, /v1/events and probes",
    )
}

/// The session that the request names.
fn session(headers: &HeaderMap) -> Result<SessionId, Problem> {
    let name = headers.get("lockstep-session");
    // What is not ASCII is refused with the rest.
    convert::session(name.map(|name| name.to_str().unwrap_or_default()))
}

/// The whole body, unless it is too large or too slow.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let Ok(read) = tokio::time::timeout(limits::PATIENCE, read(body)).await else {
        let message = format!(
            "the body did not arrive within {} s",
            limits::PATIENCE.as_secs()
        );
        return Err(Problem::new(Code::Timeout, message, "send it at once"));
    };
    read
}

/// A body that is too large is read on for a while, and thrown away: who is still writing when the
/// connection closes does not get to read the answer.
async fn read(mut body: Body) -> Result<Bytes, Problem> {
    let mut whole = Vec::new();
    let mut thrown_away = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Problem::field("body", &format!("ended early: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers
        };
        if thrown_away == 0 && whole.len() + data.len() <= limits::MAX_BODY {
            whole.extend_from_slice(&data);
            continue;
        }
        thrown_away += std::mem::take(&mut whole).len() + data.len();
        if thrown_away > limits::MAX_THROWN_AWAY {
            break;
        }
    }
    if thrown_away > 0 {
        return Err(Problem::body_too_large());
    }
    Ok(whole.into())
}

// === impl Json ===

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
