//! One question of the API server and its answer.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Json, State};
use axum::routing::post;
use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::{DynamicObject, Status};
use serde_json::Value;

use super::known::Unknown;
use super::{Admission, PATH};
use crate::clock;
use crate::controller::injection::{self, Denial, Injection, Standing};
use crate::metrics::AdmissionOutcome;

/// A question is at most two pods, each of what etcd can store.
const LONGEST_QUESTION: usize = 8 << 20;

type Review = AdmissionReview<DynamicObject>;

/// What is to be answered.
enum Answer {
    Allow(AdmissionOutcome),
    Patch(json_patch::Patch, Vec<String>),
}

pub(super) fn routes(admission: Admission) -> Router {
    Router::new()
        .route(PATH, post(answer))
        .layer(DefaultBodyLimit::max(LONGEST_QUESTION))
        .with_state(admission)
}

async fn answer(State(admission): State<Admission>, Json(review): Json<Review>) -> Json<Review> {
    let began = clock::now();
    let request: AdmissionRequest<DynamicObject> = match review.try_into() {
        Ok(request) => request,
        Err(error) => {
            admission.metrics.answered(AdmissionOutcome::Failed);
            return Json(AdmissionResponse::invalid(error).into_review());
        }
    };
    let response = AdmissionResponse::from(&request);
    let decided = admission.decide(&request).await;
    let (outcome, response) = say(&admission, &request, response, decided);
    admission.metrics.answered(outcome);
    let took = clock::now().since(began);
    admission.metrics.seconds.observe(took.as_secs_f64());
    Json(response.into_review())
}

fn say(
    admission: &Admission,
    request: &AdmissionRequest<DynamicObject>,
    response: AdmissionResponse,
    decided: Result<Answer, Unknown>,
) -> (AdmissionOutcome, AdmissionResponse) {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let uid = &request.uid;
    match decided {
        Ok(Answer::Allow(outcome)) => (outcome, response),
        Ok(Answer::Patch(patch, warnings)) => match response.clone().with_patch(patch) {
            Ok(mut patched) => {
                tracing::debug!(namespace, uid, ?warnings, "a pod gets its worker");
                let count = u64::try_from(warnings.len()).unwrap_or_default();
                admission.metrics.warnings.inc_by(count);
                patched.warnings = (!warnings.is_empty()).then_some(warnings);
                (AdmissionOutcome::Injected, patched)
            }
            Err(error) => {
                tracing::error!(namespace, uid, %error, "a patch could not be written");
                (
                    AdmissionOutcome::Failed,
                    unavailable(response, &error.to_string()),
                )
            }
        },
        Err(Unknown::Denied(denial)) => {
            tracing::info!(namespace, uid, %denial, "a pod was refused");
            (AdmissionOutcome::Denied, response.deny(denial))
        }
        Err(error @ (Unknown::Unanswered(_) | Unknown::Late)) => {
            tracing::warn!(namespace, uid, %error, "a pod could not be looked at");
            (
                AdmissionOutcome::Failed,
                unavailable(response, &error.to_string()),
            )
        }
    }
}

/// Not now: whoever made the pod tries again.
fn unavailable(mut response: AdmissionResponse, why: &str) -> AdmissionResponse {
    response.allowed = false;
    response.result = Status::failure(why, "ServiceUnavailable").with_code(503);
    response
}

// === impl Admission ===

impl Admission {
    async fn decide(&self, request: &AdmissionRequest<DynamicObject>) -> Result<Answer, Unknown> {
        let untouched = Ok(Answer::Allow(AdmissionOutcome::Untouched));
        let Some(object) = &request.object else {
            return untouched;
        };
        let about_pods = request.kind.kind == "Pod" && request.sub_resource.is_none();
        if !about_pods || !matches!(request.operation, Operation::Create) {
            return untouched;
        }
        // The name and the namespace in the object are empty while a workload makes it.
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let (raw, pod) = read(object)?;
        let group = match injection::standing(namespace, &pod)? {
            Standing::Untouched => return untouched,
            Standing::Done => return Ok(Answer::Allow(AdmissionOutcome::Done)),
            Standing::Wants(group) => group,
        };
        let facts = self.known.facts(namespace, &group).await?;
        let Injection { pod, warnings } =
            injection::inject(namespace, (&raw, &pod), &facts, &self.defaults)?;
        Ok(Answer::Patch(json_patch::diff(&raw, &pod), warnings))
    }
}

/// The pod as it came, and as this version understands it.
fn read(object: &DynamicObject) -> Result<(Value, Pod), Denial> {
    let raw = serde_json::to_value(object);
    let both = raw.and_then(|raw| Ok((serde_json::from_value(raw.clone())?, raw)));
    let (pod, raw) = both.map_err(|error| Denial::Unreadable {
        why: error.to_string(),
    })?;
    Ok((raw, pod))
}
