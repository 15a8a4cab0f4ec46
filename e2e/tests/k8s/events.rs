//! Events: what `kubectl` shows of them, and that there are few.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::{Client, Resource};
use lockstep::k8s::{EventKind, EventReason, Events, Note};
use lockstep::tasks::Tasks;
use lockstep_e2e::cluster::ApiServer;
use lockstep_e2e::until;

const SOON: Duration = Duration::from_secs(30);

async fn object(client: &Client, name: &str) -> ObjectReference {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    api.create(&PostParams::default(), &map)
        .await
        .unwrap()
        .object_ref(&())
}

fn note(reason: EventReason, text: &str) -> Note {
    Note {
        kind: EventKind::Warning,
        reason,
        action: "Observe",
        text: text.to_owned(),
    }
}

async fn written(client: &Client) -> Vec<Event> {
    let api: Api<Event> = Api::default_namespaced(client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

async fn until_written(client: &Client, count: usize) -> Vec<Event> {
    let found = until(format!("{count} Events"), SOON, async || {
        let found = written(client).await;
        if found.len() == count {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    });
    found.await.unwrap()
}

#[tokio::test]
async fn events_are_shown_with_their_object_and_once_in_a_while() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let (orders, payments) = (
        object(&client, "orders").await,
        object(&client, "payments").await,
    );
    let tasks = Tasks::new();
    let events = Events::new(client.clone(), "controller-a".to_owned(), &tasks);
    // A hundred of one kind become one; another reason, and another object, have their own.
    for n in 0..100 {
        events.record(
            &orders,
            note(EventReason::StateLost, &format!("the bucket is gone {n}")),
        );
    }
    events.record(&orders, note(EventReason::Adopted, "taken over"));
    events.record(&payments, note(EventReason::StateLost, "this one, too"));
    // The queue keeps their order: once the last one is there, all are.
    let found = until_written(&client, 3).await;
    let first = found.iter().find(|e| {
        e.reason.as_deref() == Some("StateLost")
            && e.regarding.as_ref().unwrap().name == orders.name
    });
    let first = first.unwrap();
    assert_eq!(first.note.as_deref(), Some("the bucket is gone 0"));
    assert_eq!(first.regarding.as_ref().unwrap().uid, orders.uid);
    assert_eq!(first.type_.as_deref(), Some("Warning"));
    assert_eq!(
        first.reporting_controller.as_deref(),
        Some("lockstep.dev/controller")
    );
    assert_eq!(first.reporting_instance.as_deref(), Some("controller-a"));
    let shown = server.kubectl(&["get", "events"]).await.unwrap().stdout;
    assert!(
        shown.contains("configmap/orders") && shown.contains("StateLost"),
        "{shown}"
    );
    tasks.stop().await;
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_hinders_nobody() {
    let mut server = ApiServer::start().await.unwrap();
    let client = server.client().await.unwrap();
    let orders = object(&client, "orders").await;
    let tasks = Tasks::new();
    let events = Events::new(client.clone(), "controller-a".to_owned(), &tasks);
    server.kill("kube-apiserver").unwrap();
    // Far more than the queue holds: what does not fit is dropped, and nobody waits.
    for reason in EventReason::ALL.iter().cycle().take(10_000) {
        events.record(&orders, note(*reason, "nobody hears it"));
    }
    server.restart_apiserver().await.unwrap();
    let later = object(&client, "later").await;
    let heard = until("an Event after the outage", SOON, async || {
        events.record(&later, note(EventReason::Adopted, "heard again"));
        let found = written(&client).await;
        let heard = found
            .iter()
            .any(|e| e.note.as_deref() == Some("heard again"));
        if heard {
            Ok(())
        } else {
            Err(format!("{} Events", found.len()))
        }
    });
    heard.await.unwrap();
    tasks.stop().await;
}
